"""Who is in a workspace, and who is invited."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Member(Answer):
    """Somebody in the workspace, and what they may do."""

    id: int
    name: str
    email: str
    role: str  # annotator, reviewer, researcher, owner.
    created_at: datetime


class Invitation(Answer):
    """An offer of membership that is open."""

    id: str
    email: str
    role: str
    expires_at: datetime
    created_at: datetime


class LinkedInvitation(Invitation):
    """The same with its link, which is shown this once."""

    link: str  # Good for one person. Whoever opens it joins.


class ChangeRole(TypedDict):
    """What somebody may do from now on. Owners are made on the page."""

    role: Literal["annotator", "reviewer", "researcher"]


class Invite(TypedDict, total=False):
    """Whom to invite, and as what."""

    email: Required[str]
    role: Literal["annotator", "reviewer", "researcher"]
