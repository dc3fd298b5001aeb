"""Runs requests in threads, and manages the connections they hold."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import connections
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from apps.common.unsent_responses import UnsentResponses

MAX_AT_ONCE = 192
"""Concurrent requests per process; others wait. Far more than database connections, since some requests only wait themselves."""


class OneTripHandler(ASGIHandler):
    """Handles each request with a single switch to a thread of a persistent pool.

    Django's own handler creates a thread per request and switches to it for each signal, view middleware, the view, and the
    end: a third of the CPU time of a small response. All of ours are synchronous functions. Only streaming responses use
    Django's way from there on.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unsent = UnsentResponses()
        threads = ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="request")
        self._answer = sync_to_async(self._answer_in_thread, thread_sensitive=False, executor=threads)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            response = await self._answer(scope, body)
            if not response.streaming:
                size = len(response.content) if isinstance(response, HttpResponse) else 0
                await self._unsent.send(size, partial(self.send_response, response), send)
                return
            async with ThreadSensitiveContext():
                await self._stream(response, receive, send)

    def _answer_in_thread(self, scope: Any, body: IO[bytes]) -> HttpResponseBase:
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        if request is None:
            assert refusal is not None, "an invalid request has a refusal"
            refusal.close()
            return refusal
        try:
            response = self.get_response(request)
        finally:
            release_connections()
        if not response.streaming:
            response.close()  # this ends the request but keeps the content
        return response

    async def _stream(self, response: HttpResponseBase, receive: Any, send: Any) -> None:
        """Send a streaming response until its end or until the client disconnects."""
        sending = asyncio.create_task(self.send_response(response, send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not sending.done():
                sending.cancel()
            results = await asyncio.gather(sending, return_exceptions=True)
            await sync_to_async(response.close)()
        if isinstance(results[0], Exception):
            raise results[0]


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def release_connections() -> None:
    """Release database connections while waiting for a client.

    Django keeps them until the client has received the last byte. A process has few, so a handful of slow clients
    could exhaust them. A connection in a transaction is kept, since it doesn't belong to the request.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
