"""How a request gets from the event loop to its view and back, and what it holds meanwhile."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import connections
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

MOST_AT_ONCE = 64
"""Requests that one process has in its views; others wait. Far more than there are database connections, since some only wait, too."""


class OneTripHandler(ASGIHandler):
    """Answers a request in one trip to one of a few threads, which stay.

    Django's own makes a thread for each request and goes there and back for each signal, each middleware that looks at views, the
    view, and the end: a third of the processor time of a small answer. Ours are plain functions all of them. Only a response that is made
    while it's sent goes Django's way from there on.
    """

    def __init__(self) -> None:
        super().__init__()
        threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="request")
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
                await self.send_response(response, send)
                return
            async with ThreadSensitiveContext():
                await self._stream(response, receive, send)

    def _answer_in_thread(self, scope: Any, body: IO[bytes]) -> HttpResponseBase:
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        if request is None:
            assert refusal is not None, "what is no request has been refused"
            refusal.close()
            return refusal
        try:
            response = self.get_response(request)
        finally:
            give_back_connections()
        if not response.streaming:
            response.close()  # which ends the request; the content stays
        return response

    async def _stream(self, response: HttpResponseBase, receive: Any, send: Any) -> None:
        """Send a response while it's made, until its end or until its client has gone."""
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


def give_back_connections() -> None:
    """Hold no database connection while a client is waited for.

    Django keeps it until the client has taken the last byte. A process has few, so a handful of clients that read slowly, or not at
    all, would leave none for anybody else. One in a transaction is kept: it isn't a request's own.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
