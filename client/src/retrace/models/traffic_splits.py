"""Traffic splits: names of the gateway that lead to several policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.models.answer import Answer

Unit = Literal["session", "task", "unit"]


class TrafficSplit(Answer):
    """A name of the gateway that leads to one policy or to several by weight."""

    id: str
    url: str  # Where to ask again.
    name: str  # What agents ask for.
    environment: str  # Whose champion answers where an arm can't be reached, and where the split is off.
    unit: str  # What an arm is drawn for.
    is_on: bool
    arms: list[dict[str, Any]]  # policy, policy_name, weight (a canary's in percent of all sessions), is_canary.
    arms_changed_at: datetime
    experiment: str | None  # The live experiment that new sessions take part in.
    created_at: datetime


class SplitStanding(TrafficSplit):
    """A traffic split with the figures of its newest sessions."""

    champion: str | None
    figures: dict[str, Any]


class Arm(TypedDict, total=False):
    """A policy of a split, with its weight among the others."""

    policy: Required[str]
    weight: int


class Canary(TypedDict):
    """A policy with a small share of all sessions."""

    policy: str
    percent: int


class ChangeSplit(TypedDict, total=False):
    """Who is to answer the sessions that begin from now on."""

    arms: Required[Sequence[Arm]]
    canary: Canary | None
    unit: Unit


class NewSplit(ChangeSplit, total=False):
    """A traffic split to make."""

    name: Required[str]
    environment: str
    champion: str | None  # Becomes that, where the environment has none.


class Switch(TypedDict):
    """On or off."""

    is_on: bool
