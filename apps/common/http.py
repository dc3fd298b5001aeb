"""The request as views know it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.http import Http404, HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

if TYPE_CHECKING:
    from django_htmx.middleware import HtmxDetails

    from apps.accounts.models import Membership, User


class HtmxRequest(HttpRequest):
    """A signed-in person's request: who they are in the current workspace, and whether htmx sent it."""

    user: User  # the middleware refuses anonymous requests before a view sees them
    htmx: HtmxDetails
    member: Membership


class NotHere(Http404):
    """A 404 whose words are for the visitor: why there is nothing, and what to do. Other 404s only say that there is nothing."""


def next_url(request: HttpRequest, *, otherwise: str) -> str:
    """Where `next` leads, if that is a page of ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    # Anything but a path would be taken for the name of a view.
    is_ours = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return wanted if is_ours else otherwise


def page_before(request: HttpRequest, *, otherwise: str) -> str:
    """The path of the page of ours that the request came from; browsers tell it within one site."""
    try:
        path = urlsplit(request.headers.get("Referer", "")).path
    except ValueError:
        return otherwise
    return path if path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None) else otherwise


def whole_number(text: str | None, *, otherwise: int) -> int:
    """A number from an address, of at most 15 digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else otherwise
