"""Feedback from users of an agent about its sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Feedback(Answer):
    """Confirmation that the feedback was stored."""

    id: str


class FeedbackKey(Answer):
    """A key with which users' browsers send feedback."""

    id: str
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None


class NewFeedbackKey(FeedbackKey):
    """A new feedback key, including the key itself, which is shown only once."""

    key: str


class NewFeedback(TypedDict, total=False):
    """A user's feedback on a session: a thumb, a comment, an edited answer, or several of these."""

    session: Required[str]
    thumb: Literal["up", "down"] | None
    comment: str
    edited_answer: str  # What the agent should have answered.
    call: str | None  # Which answer was edited; default: the last.


class FeedbackKeyName(TypedDict):
    """A name for where the key is used."""

    name: str
