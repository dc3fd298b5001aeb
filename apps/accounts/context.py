"""What every page knows of its visitor."""

from typing import Any

from django.http import Http404, HttpRequest
from django.utils.functional import SimpleLazyObject

from apps.accounts.models import Membership
from apps.common import disk


def current_membership(request: HttpRequest) -> dict[str, Any]:
    """`member` for templates: falsy for strangers and people without a workspace; no query where no template asks."""
    return {"member": SimpleLazyObject(lambda: _member_or_none(request))}


def disk_is_full(request: HttpRequest) -> dict[str, Any]:
    """`disk_is_full` for templates: whether to say on the page that nothing new can be saved."""
    return {"disk_is_full": SimpleLazyObject(lambda: not disk.has_room())}


def _member_or_none(request: HttpRequest) -> Membership | None:
    try:
        member: Membership = request.member  # type: ignore[attr-defined]  # set by CurrentMembershipMiddleware
        _ = member.role  # touches the lazy object
    except (Http404, AttributeError):
        return None
    return member
