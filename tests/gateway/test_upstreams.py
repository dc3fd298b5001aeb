"""What a process caches about model servers: one workspace's calls mustn't affect those of others."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest

from apps.gateway import upstream as module
from apps.gateway.refusals import UpstreamAway
from apps.gateway.upstream import Destination, Upstreams
from contract.outgoing.async_transport import is_idle
from tests.gateway.conftest import Agent
from tests.gateway.upstream import Upstream, says

ASK = {"model": "served", "messages": [{"role": "user", "content": "Where is the lamp?"}]}


async def until(is_so: Any) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_connections_are_closed_once_a_server_is_asked_nothing(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    """Otherwise, connections to many servers would exhaust the file descriptors."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    upstreams = Upstreams()
    response = await upstreams.send(Destination([upstream.url], ""), uuid4(), "chat/completions", ASK, headers={})
    await response.aread()
    await response.aclose()
    [client] = upstreams._clients.values()
    await until(lambda: client.is_closed)
    assert not upstreams._clients
    assert not upstreams._used_at
    assert await upstreams.supports_token_ids(Destination([upstream.url], ""))
    await upstreams.close()


async def test_a_reply_under_way_is_not_cut_off(upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    upstream.replies, upstream.seconds_a_piece = [says("On the shelf.")], 0.02
    upstreams = Upstreams()
    body = {**ASK, "stream": True}
    response = await upstreams.send(Destination([upstream.url], ""), uuid4(), "chat/completions", body, headers={})
    [client] = upstreams._clients.values()
    assert not is_idle(client)
    assert b"[DONE]" in b"".join([piece async for piece in response.aiter_raw()])
    await response.aclose()
    await until(lambda: client.is_closed)
    await upstreams.close()


async def test_a_reply_of_weights_in_training_is_not_cut_off_by_those_of_other_runs(upstream: Upstream):
    upstream.replies, upstream.seconds_a_piece = [says("On the shelf.")], 0.02
    upstreams = Upstreams()

    async def asked(number: int) -> httpx.Response:
        weights = Destination([f"http://127.0.0.{number}:{upstream.http.server_port}/v1"], "", True, True)
        return await upstreams.send(weights, uuid4(), "chat/completions", {**ASK, "stream": True}, headers={})

    response = await asked(1)
    for number in range(2, 40):
        with suppress(UpstreamAway):
            await asked(number)
    assert b"[DONE]" in b"".join([piece async for piece in response.aiter_raw()])
    await upstreams.close()


async def test_who_has_no_key_does_not_decide_what_is_known_of_the_server(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    """Another workspace may have the key, and train on token ids."""
    monkeypatch.setenv("ENDPOINT_KEYS", f"SHOP_API_KEY={upstream.url}")
    monkeypatch.setenv("SHOP_API_KEY", "right")
    handler, own = upstream.http.RequestHandlerClass, upstream.http.RequestHandlerClass.do_GET  # type: ignore[attr-defined]

    def only_with_key(self: Any) -> None:
        if self.headers.get("Authorization") == "Bearer right":
            own(self)
        else:
            self.answer(401, b'{"error": {"message": "Who are you?"}}')

    monkeypatch.setattr(handler, "do_GET", only_with_key)
    upstreams = Upstreams()
    assert not await upstreams.supports_token_ids(Destination([upstream.url], ""))
    assert await upstreams.supports_token_ids(Destination([upstream.url], "SHOP_API_KEY"))
    monkeypatch.setattr(handler, "do_GET", own)
    monkeypatch.setattr(module.time, "monotonic", lambda now=module.time.monotonic: now() + module.UNKNOWN_SECONDS)
    assert await upstreams.supports_token_ids(Destination([upstream.url], ""))
    await upstreams.close()


@pytest.mark.parametrize(("allowed", "may_render"), [("", True), ("/v1", False), ("/other", False)])
async def test_a_key_that_is_allowed_below_v1_only_isnt_sent_beside_it(
    monkeypatch: pytest.MonkeyPatch, allowed: str, may_render: bool
):
    monkeypatch.setenv("ENDPOINT_KEYS", f"SHOP_API_KEY=http://127.0.0.1:9{allowed}")
    monkeypatch.setenv("SHOP_API_KEY", "right")
    assert Upstreams().may_render(Destination(["http://127.0.0.1:9/v1"], "SHOP_API_KEY")) is may_render
    assert Upstreams().may_render(Destination(["http://127.0.0.1:9/v1"], ""))


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """Set when streams may end."""
    event = threading.Event()
    event.set()
    yield event
    event.set()


@pytest.fixture
def connections(upstream: Upstream, may_end: threading.Event, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The client address of each stream request. Like an engine's, the response ends a moment after `[DONE]`, and the connection stays open."""
    addresses: list[tuple[str, int]] = []

    def stream(handler: Any, body: dict[str, Any], message: dict[str, Any]) -> None:
        addresses.append(handler.client_address)
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in [*(json.dumps(chunk) for chunk in upstream.chunks(body, message)), "[DONE]"]:
            event = f"data: {piece}\n\n"
            handler.wfile.write(f"{len(event):x}\r\n{event}\r\n".encode())
        time.sleep(0.02)
        may_end.wait(60)
        handler.wfile.write(b"0\r\n\r\n")

    monkeypatch.setattr(upstream.http.RequestHandlerClass, "stream", stream)
    return addresses


def test_a_stream_leaves_its_connection_to_the_next_call(agent: Agent, connections: list[tuple[str, int]]):
    for _ in range(3):
        assert agent.ask(*ASK["messages"], stream=True).text.endswith("data: [DONE]\n\n")
        time.sleep(0.1)
    assert len(connections) == 3
    assert len(set(connections)) == 1


def test_an_agent_doesnt_wait_for_a_server_that_doesnt_end_its_stream(
    agent: Agent, may_end: threading.Event, connections: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "END_SECONDS", 0.05)
    may_end.clear()
    for _ in range(2):
        assert agent.ask(*ASK["messages"], stream=True).text.endswith("data: [DONE]\n\n")
        time.sleep(0.1)
    assert len(set(connections)) == 2
