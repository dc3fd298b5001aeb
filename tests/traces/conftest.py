"""The traces endpoint, served by uvicorn in a thread of the test, and exporters that send to it."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from django.utils.timezone import now
from starlette.responses import PlainTextResponse

from apps.accounts.models import Membership, Role
from apps.traces import span_store, trace_trajectories
from apps.traces.asgi import TracesEndpoint
from apps.traces.models import Trace
from tests import factories


@pytest.fixture
def traces_url(transactional_db: None) -> Iterator[str]:
    """The endpoint's base URL."""
    span_store._stored.clear()
    app = TracesEndpoint(PlainTextResponse("elsewhere"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1/traces"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def researcher(transactional_db: None) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def http(traces_url: str, researcher: Membership) -> Iterator[httpx.Client]:
    """A client with the token of `researcher`; the endpoint's address is ""."""
    headers = {"Authorization": f"Bearer {factories.token(researcher)}"}
    with httpx.Client(base_url=traces_url, headers=headers, timeout=30) as client:
        yield client


def settle() -> None:
    """Run the periodic task as if no trace had received spans for long enough."""
    Trace.objects.filter(due_at__isnull=False).update(due_at=now())
    trace_trajectories.settle_due()


def send(http: httpx.Client, *spans: dict[str, Any], **resource: Any) -> httpx.Response:
    """Send spans as OTLP JSON."""
    resource_body = {"attributes": attributes(resource)}
    body = {"resourceSpans": [{"resource": resource_body, "scopeSpans": [{"spans": list(spans)}]}]}
    return http.post("", content=json.dumps(body), headers={"Content-Type": "application/json"})


def span(
    number: int, span_attributes: dict[str, Any] | None = None, *, trace: int = 1, parent: int = 0, **more: Any
) -> dict[str, Any]:
    """A span that begins `number` seconds after 1970 and takes half a second."""
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": f"span {number}",
        "startTimeUnixNano": str(number * 10**9),
        "endTimeUnixNano": str(number * 10**9 + 5 * 10**8),
        "attributes": attributes(span_attributes or {}),
        **more,
    }


def chat_span(number: int, *texts: str, parent: int = 9, **more: Any) -> dict[str, Any]:
    """A model call whose input is all of `texts` except the last, which is its output; user and model alternate."""
    messages = [
        {"role": ("user", "assistant")[place % 2], "parts": [{"type": "text", "content": text}]}
        for place, text in enumerate(texts)
    ]
    return span(
        number,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "tiny",
            "gen_ai.input.messages": messages[:-1],
            "gen_ai.output.messages": messages[-1:],
        },
        parent=parent,
        **more,
    )


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(item)} for key, item in values.items()]


def value(raw: Any) -> dict[str, Any]:
    if isinstance(raw, bool):
        return {"boolValue": raw}
    if isinstance(raw, int):
        return {"intValue": str(raw)}
    if isinstance(raw, float):
        return {"doubleValue": raw}
    if isinstance(raw, list):
        return {"arrayValue": {"values": [value(item) for item in raw]}}
    if isinstance(raw, dict):
        return {"kvlistValue": {"values": attributes(raw)}}
    return {"stringValue": raw}
