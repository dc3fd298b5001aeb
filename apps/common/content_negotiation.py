"""Request encodings (only UTF-8), and the API's media types."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework import status
from rest_framework.exceptions import APIException, NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request

from contract.quoting import legible

KNOWN = {"utf-8", "utf8", "us-ascii", "ascii"}


class CharsetMiddleware:
    """Decodes every request as UTF-8, and refuses those that declare another charset.

    For pages, the refusal happens here, after sign-in; for the API, when the body is about to be parsed (`LenientNegotiation`).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if foreign_charset(request):
            request.encoding = "utf-8"  # Django would decode the query and every form by the header
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> HttpResponse | None:
        charset = foreign_charset(request)
        if not charset or request.path.startswith("/api/"):
            return None
        return HttpResponse(refusal(charset), status=415, content_type="text/plain; charset=utf-8")


def foreign_charset(request: HttpRequest) -> str:
    """The request's declared charset if it isn't UTF-8; otherwise ""."""
    charset = (request.content_params or {}).get("charset", "utf-8").strip("\"' ").lower()
    return "" if charset in KNOWN else legible(charset, 40) or "(empty)"


def refusal(charset: str) -> str:
    return f"The request says that it's encoded in {charset}. Send UTF-8, and leave `charset` out of Content-Type."


class ForeignCharset(APIException):
    """The body isn't encoded in UTF-8."""

    status_code = status.HTTP_415_UNSUPPORTED_MEDIA_TYPE
    default_code = "foreign_charset"


class LenientNegotiation(DefaultContentNegotiation):
    """Selects the requested media type, or else the one available, which HTTP allows (RFC 9110, 12.5.1).

    Rows, cards, and rejected rows don't use a renderer. A client that requests their types, as documented in the schema,
    would otherwise be refused because JSON is the only renderer.
    """

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        try:
            return super().select_renderer(request, renderers, format_suffix)
        except NotAcceptable:
            return renderers[0], renderers[0].media_type

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Called when the body is about to be parsed, after the permission check. Raises ForeignCharset."""
        if charset := foreign_charset(request._request):
            raise ForeignCharset(refusal(charset))
        return super().select_parser(request, parsers)
