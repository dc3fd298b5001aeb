"""Entering another of one's workspaces."""

from collections.abc import MutableMapping
from typing import Any

from apps.accounts.membership import SESSION_KEY
from apps.accounts.models import Membership


def enter(*, session: MutableMapping[str, Any], membership: Membership) -> None:
    """Make this membership's workspace the current one of the session."""
    session[SESSION_KEY] = str(membership.workspace_id)
