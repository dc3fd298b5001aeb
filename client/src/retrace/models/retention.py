"""Retention rules."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from retrace.models.answer import Answer


class RetentionRule(Answer):
    """How long unused trajectories from one source are kept."""

    id: str
    source: str
    days: int
    is_on: bool
    ran_at: datetime | None  # When it last started a deletion.
    created_at: datetime


class PreviewedRule(RetentionRule):
    """A rule with how much it would delete now."""

    would_go: int  # Trajectories, and sessions that became none; 100,001 means more than 100,000.


class NewRule(TypedDict):
    """A source with trajectories, and how long to keep them."""

    source: str
    days: int


class ChangeRule(TypedDict, total=False):
    """Changes; fields left out stay as they are."""

    days: int
    is_on: bool  # Check `would_go` first.
