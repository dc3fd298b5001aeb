"""Which workspace somebody is in at the moment."""

from collections.abc import MutableMapping
from typing import Any

from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import Membership, User

SESSION_KEY = "workspace"


def current_membership(user: User | AnonymousUser, session: MutableMapping[str, Any]) -> Membership | None:
    """The membership that the session chose, else the oldest; None for strangers and people without a workspace."""
    if not user.is_authenticated:
        return None
    memberships = Membership.objects.filter(user=user).select_related("workspace", "user")
    if chosen := session.get(SESSION_KEY):
        member = memberships.filter(workspace_id=chosen).first()
        if member:
            return member
    return memberships.order_by("created_at", "pk").first()
