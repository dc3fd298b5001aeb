"""A user's current workspace (the last one entered), also for templates."""

from collections.abc import MutableMapping
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest
from django.utils.functional import SimpleLazyObject

from apps.accounts.models import Membership, User
from apps.common import disk

SESSION_KEY = "workspace"


def current_membership(user: User | AnonymousUser, session: MutableMapping[str, Any]) -> Membership | None:
    """The session's chosen membership, or else the oldest; None for anonymous users and people without a workspace."""
    if not user.is_authenticated:
        return None
    memberships = user.own_memberships
    chosen = session.get(SESSION_KEY)
    return next(
        (member for member in memberships if str(member.workspace_id) == chosen),
        memberships[0] if memberships else None,
    )


def enter(*, session: MutableMapping[str, Any], membership: Membership) -> None:
    """Make this membership's workspace the session's current one."""
    session[SESSION_KEY] = str(membership.workspace_id)


def member_for_templates(request: HttpRequest) -> dict[str, Any]:
    """`member` for templates: falsy for anonymous users and people without a workspace; lazy, so unused costs no query."""
    return {"member": SimpleLazyObject(lambda: _member_or_none(request))}


def disk_is_full(request: HttpRequest) -> dict[str, Any]:
    """`disk_is_full` for templates: whether to show a warning that nothing can be saved."""
    return {"disk_is_full": SimpleLazyObject(lambda: not disk.has_room())}


def _member_or_none(request: HttpRequest) -> Membership | None:
    try:
        member: Membership = request.member  # type: ignore[attr-defined]  # set by CurrentMembershipMiddleware
        _ = member.role  # evaluates the lazy object
    except (Http404, AttributeError):
        return None
    return member
