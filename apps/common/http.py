"""The request as views know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404, HttpRequest

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
