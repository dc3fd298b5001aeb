"""Traces: spans per second accepted at /v1/traces, as the Collector sends them, and conversion of traces to trajectories.

Batches of 1,024 spans in protobuf, over four connections to one web process. A trace has eight spans: a root, three model calls with the
chat so far, three tool calls, and one other. Exporter, server, and PostgreSQL share the machine's cores.
"""

from __future__ import annotations

import gzip
import itertools
import time
from collections.abc import Iterator
from typing import Any

import httpx

BATCH = 1024
CONNECTIONS = 4
TRACE = 8
RESULT = "The lamp stands on the second shelf from the left, behind the blue vase. " * 10


def measure(size: Any) -> Iterator[Any]:
    from datetime import timedelta

    from django.utils.timezone import now

    from apps.accounts.api_tokens import issue_token
    from apps.accounts.models import Membership, Role, User, Workspace
    from apps.traces import trace_trajectories
    from apps.traces.models import Span, Trace
    from apps.trajectories.models import Trajectory
    from bench.harness import Figure, at_once, elapsed, serving, watch_memory

    workspace = Workspace.objects.create(name="bench", slug="bench")
    user = User.objects.create(email="bench@example.org")
    member = Membership.objects.create(user=user, workspace=workspace, role=Role.RESEARCHER)
    secret = issue_token(membership=member, name="bench").secret
    count = max(2 * CONNECTIONS, min(20 * size.items, 200_000) // BATCH // CONNECTIONS * CONNECTIONS)
    with serving(1) as server:
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/x-protobuf"}
        clients = [
            httpx.Client(base_url=f"{server.url}/v1/traces", headers=headers, timeout=60) for _ in range(CONNECTIONS)
        ]
        first = 0
        for kind in ("plain", "gzip"):
            packed = {"Content-Encoding": "gzip"} if kind == "gzip" else {}
            bodies = [batch(first + number * BATCH // TRACE) for number in range(count)]
            bodies = [gzip.compress(body, 1) for body in bodies] if packed else bodies
            first += count * BATCH // TRACE
            sizes = {
                "spans": count * BATCH,
                "connections": CONNECTIONS,
                "bytes a span": round(sum(map(len, bodies)) / count / BATCH),
            }

            def send(connection: int, bodies: list[bytes] = bodies, packed: dict[str, str] = packed) -> None:
                for body in bodies[connection::CONNECTIONS]:
                    response = clients[connection].post("", content=body, headers=packed)
                    assert (response.status_code, response.content) == (200, b""), response.text

            before, used = Span.objects.count(), server.cpu_seconds()
            with watch_memory(server.pids[0]) as memory, elapsed() as timer:
                at_once(CONNECTIONS, send)
            spans = count * BATCH
            yield Figure(
                name=f"{kind}: spans taken a second",
                value=spans / timer.seconds,
                unit="spans/s",
                limit=5000.0,
                better="higher",
                with_=sizes,
            )
            spent = 1e6 * (server.cpu_seconds() - used) / spans
            yield Figure(name=f"{kind}: processor time of the server", value=spent, unit="µs a span", with_=sizes)
            yield Figure(name=f"{kind}: memory of the server", value=memory.growth, unit="MB", limit=300.0, with_=sizes)
            lost = spans - (Span.objects.count() - before)
            yield Figure(name=f"{kind}: spans lost or doubled", value=abs(lost), unit="spans", limit=0.0, with_=sizes)
            if kind == "plain":
                with elapsed() as timer:
                    at_once(CONNECTIONS, send)
                yield Figure(
                    name="sent again: spans taken a second",
                    value=spans / timer.seconds,
                    unit="spans/s",
                    limit=5000.0,
                    better="higher",
                    with_=sizes,
                )
                lost = spans - (Span.objects.count() - before)
                yield Figure(name="sent again: spans doubled", value=abs(lost), unit="spans", limit=0.0, with_=sizes)
        for client in clients:
            client.close()
    Trace.objects.update(due_at=now() - timedelta(seconds=1))
    stored = Trace.objects.count()
    with elapsed() as timer:
        while Trace.objects.due_at(now()).exists():
            trace_trajectories.settle_due()
    sizes = {"traces": stored, "spans a trace": TRACE}
    yield Figure(name="traces made trajectories a second", value=stored / timer.seconds, unit="traces/s", with_=sizes)
    lost = stored - Trajectory.objects.count()
    yield Figure(name="trajectories lost or doubled", value=abs(lost), unit="trajectories", limit=0.0, with_=sizes)


def batch(first: int) -> bytes:
    """An ExportTraceServiceRequest with whole traces, numbered from `first`."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for name, value in (("service.name", "bench"), ("telemetry.sdk.language", "python"), ("host.name", "one")):
        resource_spans.resource.attributes.add(key=name).value.string_value = value
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "bench"
    for number in range(first, first + BATCH // TRACE):
        for index, attributes in enumerate(trace(number)):
            span = scope_spans.spans.add(
                trace_id=(number + 1).to_bytes(16, "big"),
                span_id=(index + 1).to_bytes(8, "big"),
                parent_span_id=b"" if index == 0 else (1).to_bytes(8, "big"),
                name=f"span {index}",
                start_time_unix_nano=int(time.time() * 1e9) + index * 10**6,
                end_time_unix_nano=int(time.time() * 1e9) + index * 10**6 + 500_000,
            )
            for name, value in attributes.items():
                span.attributes.add(key=name).value.string_value = value
    body: bytes = request.SerializeToString()
    return body


def trace(number: int) -> Iterator[dict[str, str]]:
    """The attributes of each span of a trace, the root first."""
    import json

    yield {"agent.name": "bench", "ticket": str(number)}
    messages: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": f"Find lamp {number}."}]}]
    for turn in itertools.count(1):
        call = {"type": "tool_call", "id": f"c{turn}", "name": "look", "arguments": {"at": f"shelf {turn}"}}
        answer = {"role": "assistant", "parts": [call]}
        yield {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "served",
            "gen_ai.provider.name": "vllm",
            "gen_ai.response.id": f"r{number}-{turn}",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([answer]),
        }
        yield {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.result": RESULT}
        response = {"type": "tool_call_response", "id": f"c{turn}", "response": RESULT}
        messages = [*messages, answer, {"role": "tool", "parts": [response]}]
        if turn == 3:
            break
    yield {"http.route": "/", "http.request.method": "GET"}
