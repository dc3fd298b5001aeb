"""How a request gets from the event loop to its view and back, and what it holds meanwhile."""

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class OneTripHandler(ASGIHandler):
    """Takes a request through all middleware and its view in one trip to its thread.

    Django's own would go back to the event loop below the innermost middleware and from there to the thread again: for each
    middleware that looks at views, and for the view. Ours are plain functions all of them.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self._response_to)(request)

    def _response_to(self, request: HttpRequest) -> HttpResponseBase:
        try:
            return self.get_response(request)
        finally:
            give_back_connections()


def give_back_connections() -> None:
    """Hold no database connection while a client is waited for.

    Django keeps it until the client has taken the last byte. A process has few, so a handful of clients that read slowly, or not at
    all, would leave none for anybody else. One in a transaction is kept: it isn't a request's own.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
