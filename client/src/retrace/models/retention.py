"""Retention rules."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from retrace.models.answer import Answer


class RetentionRule(Answer):
    """How long trajectories of one source are kept that nobody made use of."""

    id: str
    source: str
    days: int
    is_on: bool
    ran_at: datetime | None  # When a deletion was last asked for by it.
    created_at: datetime


class PreviewedRule(RetentionRule):
    """The same with how much it would let go now."""

    would_go: int  # Trajectories; 100,001 where it's more than 100,000.


class NewRule(TypedDict):
    """A source of which there are trajectories, and for how long they are kept."""

    source: str
    days: int


class ChangeRule(TypedDict, total=False):
    """What to change; what is left out stays."""

    days: int
    is_on: bool  # Read `would_go` before.
