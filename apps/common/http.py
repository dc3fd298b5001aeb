"""The request type of views."""

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
    """A 404 with a message for the visitor. Other 404s only say that the page doesn't exist."""


def next_url(request: HttpRequest, *, otherwise: str) -> str:
    """The target of `next`, if it's one of our pages."""
    url = request.POST.get("next") or request.GET.get("next") or ""
    # Anything but a path would be interpreted as a view name.
    is_local = url.startswith("/") and url_has_allowed_host_and_scheme(url, allowed_hosts=None)
    return url if is_local else otherwise


def page_before(request: HttpRequest, *, otherwise: str) -> str:
    """The path of the referring page, if it's one of ours; browsers send it within the same site."""
    try:
        path = urlsplit(request.headers.get("Referer", "")).path
    except ValueError:
        return otherwise
    return path if path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None) else otherwise


def whole_number(text: str | None, *, otherwise: int) -> int:
    """An integer from a URL, with at most 15 digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else otherwise
