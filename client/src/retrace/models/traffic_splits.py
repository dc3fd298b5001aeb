"""Traffic splits: gateway model names that are routed to several policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.models.answer import Answer

Unit = Literal["session", "task", "unit"]


class TrafficSplit(Answer):
    """A gateway model name that is routed to one policy, or to several by weight."""

    id: str
    url: str  # URL for polling.
    name: str  # The model name that agents request.
    environment: str  # Its champion answers if an arm can't be reached, and while the split is off.
    unit: str  # The unit for which an arm is drawn.
    is_on: bool
    arms: list[dict[str, Any]]  # policy, policy_name, weight (a canary's in percent of all sessions), is_canary.
    arms_changed_at: datetime
    experiment: str | None  # The live experiment that new sessions are part of.
    created_at: datetime


class SplitStanding(TrafficSplit):
    """A traffic split with the figures of its newest sessions."""

    champion: str | None
    figures: dict[str, Any]


class Arm(TypedDict, total=False):
    """A policy of a split, with its relative weight."""

    policy: Required[str]
    weight: int


class Canary(TypedDict):
    """A policy with a small share of all sessions."""

    policy: str
    percent: int


class ChangeSplit(TypedDict, total=False):
    """The arms for sessions that begin from now on."""

    arms: Required[Sequence[Arm]]
    canary: Canary | None
    unit: Unit


class NewSplit(ChangeSplit, total=False):
    """A traffic split to create."""

    name: Required[str]
    environment: str
    champion: str | None  # Becomes the environment's champion if it has none.


class Switch(TypedDict):
    """Whether the split is on."""

    is_on: bool
