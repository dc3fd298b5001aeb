"""What a process keeps of the servers that it sent calls to: one workspace's mustn't cost the others anything."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from apps.gateway import upstream as module
from apps.gateway.upstream import Destination, Upstreams
from contract.outgoing.async_transport import is_idle
from tests.gateway.upstream import Upstream, says

ASK = {"model": "served", "messages": [{"role": "user", "content": "Where is the lamp?"}]}


async def until(is_so: Any) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_connections_are_closed_once_a_server_is_asked_nothing(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    """Otherwise many servers use up the file descriptors."""
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
