"""Calls are written once, as generators without I/O.

They yield effects, such as sending a request or waiting. `Connection` and `AsyncConnection` perform them and
send the results back in, so the logic of a call (retries, resuming, polling) is shared by `Client` and `AsyncClient`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httpx

from retrace.core.request import Reply, Request

T = TypeVar("T")


class Effect(Protocol):
    """An action for a connection to perform."""

    def perform(self, http: httpx.Client) -> Any: ...

    async def perform_async(self, http: httpx.AsyncClient) -> Any: ...


Flow = Generator[Effect, Any, T]


@dataclass(frozen=True)
class _Send:
    request: Request

    def perform(self, http: httpx.Client) -> Reply:
        upload = self.request.upload
        answer = http.send(_built(http, self.request, upload.chunks() if upload else None))
        return Reply(answer.status_code, answer.headers, answer.content)

    async def perform_async(self, http: httpx.AsyncClient) -> Reply:
        upload = self.request.upload
        answer = await http.send(_built(http, self.request, upload.async_chunks() if upload else None))
        return Reply(answer.status_code, answer.headers, answer.content)


class Sink(Protocol):
    """The destination of a download."""

    def begin(self, headers: httpx.Headers, *, is_partial: bool) -> None: ...

    def write(self, chunk: bytes) -> None: ...


@dataclass(frozen=True)
class _Receive:
    request: Request
    sink: Sink

    def perform(self, http: httpx.Client) -> Reply:
        answer = http.send(_built(http, self.request, None), stream=True)
        with closing(answer):
            if answer.status_code not in (200, 206):
                return Reply(answer.status_code, answer.headers, answer.read())
            self.sink.begin(answer.headers, is_partial=answer.status_code == 206)
            for chunk in answer.iter_bytes():
                self.sink.write(chunk)
            return Reply(answer.status_code, answer.headers, b"")

    async def perform_async(self, http: httpx.AsyncClient) -> Reply:
        answer = await http.send(_built(http, self.request, None), stream=True)
        try:
            if answer.status_code not in (200, 206):
                return Reply(answer.status_code, answer.headers, await answer.aread())
            self.sink.begin(answer.headers, is_partial=answer.status_code == 206)
            async for chunk in answer.aiter_bytes():
                await asyncio.to_thread(self.sink.write, chunk)
            return Reply(answer.status_code, answer.headers, b"")
        finally:
            await answer.aclose()


@dataclass(frozen=True)
class _Pause:
    seconds: float

    def perform(self, http: httpx.Client) -> None:
        time.sleep(self.seconds)

    async def perform_async(self, http: httpx.AsyncClient) -> None:
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True)
class _Work:
    function: Callable[[], Any]

    def perform(self, http: httpx.Client) -> Any:
        return self.function()

    async def perform_async(self, http: httpx.AsyncClient) -> Any:
        return await asyncio.to_thread(self.function)


def send(request: Request) -> Flow[Reply]:
    """Send once. Raises httpx.RequestError if there was no response."""
    reply: Reply = yield _Send(request)
    return reply


def receive(request: Request, sink: Sink) -> Flow[Reply]:
    """Send once, and stream the response's body to `sink`. The body of an error is in the reply."""
    reply: Reply = yield _Receive(request, sink)
    return reply


def pause(seconds: float) -> Flow[None]:
    """Wait."""
    yield _Pause(seconds)


def work(function: Callable[[], T]) -> Flow[T]:
    """Run a blocking function, such as reading a file; in an event loop, it runs in a thread."""
    result: T = yield _Work(function)
    return result


def immediate(value: T) -> Flow[T]:
    """A flow without effects."""
    return value
    yield  # makes this a generator


def _built(http: httpx.Client | httpx.AsyncClient, request: Request, content: Any) -> httpx.Request:
    headers = dict(request.headers)
    if request.upload:
        headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(request.upload.size)}
    query = {name: value for name, value in request.query.items() if value is not None}
    return http.build_request(
        request.method, f"/api/v1{request.path}", params=query, json=request.body, content=content, headers=headers
    )
