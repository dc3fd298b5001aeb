"""Members of a workspace, and invitations."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Member(Answer):
    """A member of the workspace, and their role."""

    id: int
    name: str
    email: str
    role: str  # annotator, reviewer, researcher, owner.
    created_at: datetime


class Invitation(Answer):
    """An open invitation."""

    id: str
    email: str
    role: str
    expires_at: datetime
    created_at: datetime


class LinkedInvitation(Invitation):
    """An invitation with its link, which is shown only once."""

    link: str  # Valid for one person: whoever opens it joins.


class ChangeRole(TypedDict):
    """A member's new role. Owners can only be appointed on the page."""

    role: Literal["annotator", "reviewer", "researcher"]


class Invite(TypedDict, total=False):
    """Whom to invite, and their role."""

    email: Required[str]
    role: Literal["annotator", "reviewer", "researcher"]
