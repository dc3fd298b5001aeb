"""In which form the API answers."""

from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request


class WhatThereIs(DefaultContentNegotiation):
    """The one form that an address has, whatever `Accept` says.

    Rows, cards and rejected rows do not pass through a renderer. Where JSON is the only one, a client that asks for their types, as the
    schema tells it to, would be refused. HTTP leaves it to the server (RFC 9110, 12.5.1).
    """

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type
