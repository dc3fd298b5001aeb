"""How a request gets from the event loop to its view and back."""

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
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
        return await sync_to_async(self.get_response)(request)
