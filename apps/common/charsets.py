"""In which encoding a request comes: UTF-8."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from contract.quoting import legible

KNOWN = {"utf-8", "utf8", "us-ascii", "ascii"}


class CharsetMiddleware:
    """Reads every request as UTF-8, and refuses those that say that they are something else.

    A page's address refuses here, after sign-in; an API's when its body is about to be read (`apps.common.content_negotiation`).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if foreign_charset(request):
            request.encoding = "utf-8"  # Django would decode the query and every form as the header says
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> HttpResponse | None:
        charset = foreign_charset(request)
        if not charset or request.path.startswith("/api/"):
            return None
        return HttpResponse(refusal(charset), status=415, content_type="text/plain; charset=utf-8")


def foreign_charset(request: HttpRequest) -> str:
    """What the request says that it's encoded in, where that isn't UTF-8; else ""."""
    charset = (request.content_params or {}).get("charset", "utf-8").strip("\"' ").lower()
    return "" if charset in KNOWN else legible(charset, 40) or "(empty)"


def refusal(charset: str) -> str:
    return f"The request says that it's encoded in {charset}. Send UTF-8, and leave `charset` out of Content-Type."
