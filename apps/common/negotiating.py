"""In which form the API answers."""

from typing import Any

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request


class WhatThereIs(DefaultContentNegotiation):
    """What is asked for or, where an address has nothing of the kind, what it has: HTTP leaves that to the server (RFC 9110, 12.5.1).

    Rows, cards and rejected rows pass through no renderer. A client that asks for their types, as the schema tells it to, would be
    refused because JSON is the only one.
    """

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        try:
            return super().select_renderer(request, renderers, format_suffix)
        except NotAcceptable:
            return renderers[0], renderers[0].media_type
