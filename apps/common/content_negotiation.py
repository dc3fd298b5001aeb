"""In which form the API is asked, and in which it answers."""

from typing import Any

from rest_framework import status
from rest_framework.exceptions import APIException, NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request

from apps.common.charsets import foreign_charset, refusal


class ForeignCharset(APIException):
    """The body is encoded in something else than UTF-8."""

    status_code = status.HTTP_415_UNSUPPORTED_MEDIA_TYPE
    default_code = "foreign_charset"


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

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Called when a body is about to be read, after permission was decided. Raises ForeignCharset."""
        if charset := foreign_charset(request._request):
            raise ForeignCharset(refusal(charset))
        return super().select_parser(request, parsers)
