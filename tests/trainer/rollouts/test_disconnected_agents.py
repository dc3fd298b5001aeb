"""The server of weights in training computes nothing for agents that have disconnected, such as those with a short time limit that ask again."""

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request

from trainer.rollouts import chat_server
from trainer.rollouts.chat_server import ChatServer


class Endless:
    """Chats whose replies take forever."""

    def __init__(self, engine: Any, *, seed: int) -> None:
        self.cancelled = 0

    async def complete(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {}


def test_an_agent_that_disconnects_cancels_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_server, "Chats", Endless)
    server: Any = ChatServer(engine=None, seed=0)  # type: ignore[arg-type]  # it's only handed on
    messages = [{"type": "http.request", "body": json.dumps({"messages": []}).encode()}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return messages.pop(0)

    async def leave() -> int:
        request = Request({"type": "http", "method": "POST", "headers": []}, receive)
        async with asyncio.timeout(10):
            return int((await server._chat_completions(request)).status_code)

    assert asyncio.run(leave()) == 499
    assert server._chats.cancelled == 1
