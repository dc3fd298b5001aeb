"""Which workspace somebody is in at the moment: the one that they entered last."""

from collections.abc import MutableMapping
from typing import Any

from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import Membership, User

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
