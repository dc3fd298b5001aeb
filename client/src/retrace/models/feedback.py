"""What users of an agent say of its sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Feedback(Answer):
    """That it was kept."""

    id: str


class FeedbackKey(Answer):
    """A key with which users' browsers send feedback."""

    id: str
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None


class NewFeedbackKey(FeedbackKey):
    """The same with the key itself, which is shown this once."""

    key: str


class NewFeedback(TypedDict, total=False):
    """What a user says of a session: a thumb, a comment, an edited answer, or several of them."""

    session: Required[str]
    thumb: Literal["up", "down"] | None
    comment: str
    edited_answer: str  # What the agent should have answered.
    call: str | None  # Which answer was edited; left out: the last one.


class FeedbackKeyName(TypedDict):
    """What uses the key."""

    name: str
