"""Which workspace somebody is in at the moment, the one that they entered last, and where templates find it."""

from collections.abc import MutableMapping
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest
from django.utils.functional import SimpleLazyObject

from apps.accounts.models import Membership, User
from apps.common import disk

SESSION_KEY = "workspace"


def current_membership(user: User | AnonymousUser, session: MutableMapping[str, Any]) -> Membership | None:
    """The membership that the session chose, else the oldest; None for strangers and people without a workspace."""
    if not user.is_authenticated:
        return None
    mine = user.own_memberships
    chosen = session.get(SESSION_KEY)
    return next((member for member in mine if str(member.workspace_id) == chosen), mine[0] if mine else None)


def enter(*, session: MutableMapping[str, Any], membership: Membership) -> None:
    """Make this membership's workspace the current one of the session."""
    session[SESSION_KEY] = str(membership.workspace_id)


def member_for_templates(request: HttpRequest) -> dict[str, Any]:
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
