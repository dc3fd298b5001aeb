"""How a web process sends responses: complete ones after the request has ended, streams while they're generated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.common import unsent_responses
from apps.common.request_threads import OneTripHandler

SCOPE = {"type": "http", "http_version": "1.1", "method": "GET", "path": "/", "query_string": b"", "headers": []}


class Answering(OneTripHandler):
    """Gives every request the same response."""

    def __init__(self, response: HttpResponseBase) -> None:
        super().__init__()
        self.response = response

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        return self.response


class Endless:
    """An endless response that records when its generator is closed."""

    def __init__(self) -> None:
        self.has_stopped = False
        self.response = StreamingHttpResponse(self._parts())

    async def _parts(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
                await asyncio.sleep(0.001)
        finally:
            self.has_stopped = True


class Failing(Exception):
    pass


async def _failing() -> AsyncIterator[bytes]:
    yield b"begun"
    raise Failing


async def communicator_for(response: HttpResponseBase) -> ApplicationCommunicator:
    client = ApplicationCommunicator(Answering(response), SCOPE)
    await client.send_input({"type": "http.request"})
    return client


async def test_a_whole_answer_is_sent_after_its_request_has_ended() -> None:
    order: list[str] = []

    def finished(**_: Any) -> None:
        order.append("finished")

    request_finished.connect(finished)
    try:
        client = await communicator_for(HttpResponse("x" * 70_000))
        parts = [await client.receive_output() for _ in range(3)]
    finally:
        request_finished.disconnect(finished)
    assert order == ["finished"]
    assert parts[0]["status"] == 200
    assert b"".join(part["body"] for part in parts[1:]) == b"x" * 70_000
    await client.wait()


async def test_an_answer_is_made_no_further_once_its_client_has_gone() -> None:
    endless = Endless()
    client = await communicator_for(endless.response)
    for _ in range(3):
        await client.receive_output()
    assert not endless.has_stopped
    await client.send_input({"type": "http.disconnect"})
    await client.wait(timeout=5)
    assert endless.has_stopped
    assert endless.response.closed


async def test_an_answer_that_fails_halfway_is_cut_and_closed() -> None:
    response = StreamingHttpResponse(_failing())
    client = await communicator_for(response)
    assert [(await client.receive_output())["type"] for _ in range(2)] == ["http.response.start", "http.response.body"]
    with pytest.raises(Failing):
        await client.wait(timeout=5)
    assert response.closed


async def test_a_request_whose_client_goes_before_its_end_is_dropped() -> None:
    client = ApplicationCommunicator(Answering(HttpResponse()), SCOPE)
    await client.send_input({"type": "http.request", "body": b"half", "more_body": True})
    await client.send_input({"type": "http.disconnect"})
    await client.wait(timeout=5)
    assert await client.receive_nothing()


async def test_of_large_answers_that_clients_do_not_read_the_longest_stalled_are_broken_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unsent_responses, "HELD_BYTES", 2_000_000)
    handler = Answering(HttpResponse("x" * 900_000))
    stalled = [asyncio.create_task(handler(SCOPE, _request, Stalled())) for _ in range(2)]
    await asyncio.sleep(0.05)
    assert [task.done() for task in stalled] == [False, False]  # both fit
    third = Stalled()
    stalled.append(asyncio.create_task(handler(SCOPE, _request, third)))
    await asyncio.wait(stalled, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert [task.done() for task in stalled] == [True, False, False]
    third.reads.set()
    await asyncio.wait_for(stalled[2], 10)
    assert third.received == 900_000
    stalled[1].cancel()


class Stalled:
    """A client that reads the first part of an answer, and the rest once it's told to."""

    def __init__(self) -> None:
        self.received = 0
        self.reads = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        if self.received:
            await self.reads.wait()
        self.received += len(message.get("body", b""))


async def _request() -> dict[str, Any]:
    return {"type": "http.request"}
