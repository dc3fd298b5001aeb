"""Blind A/B experiments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Experiment(Waitable):
    """A blind comparison: its plan, which was fixed when it began, and its result once it has ended."""

    id: str
    url: str  # URL for polling.
    name: str
    environment: str
    policy_a: str
    policy_b: str
    rollouts_a: str | None
    rollouts_b: str | None
    split: str | None  # The split whose ended sessions feed it.
    queue: str | None
    plan: Any  # tasks, samples, seed, overlap, rule: fixed at the start.
    state: str
    verdict: Any  # The figures when it stopped.
    error: str
    created_at: datetime
    stopped_at: datetime | None

    @property
    def path(self) -> str:
        return address("/experiments/{}", self.id)

    @property
    def is_over(self) -> bool:
        return self.state in ("stopped", "failed")

    @property
    def problem(self) -> str:
        return (self.error or "The experiment failed.") if self.state == "failed" else ""

    @property
    def progress(self) -> Progress:
        return Progress(0, 0, "judgments")


class Standing(Experiment):
    """An experiment with its current or, once it has ended, its final figures."""

    standing: dict[
        str, Any
    ]  # Rates have 95 % intervals that are valid at any time; cost_a and cost_b include the number of sessions.


class Promotion(Answer):
    """The new champion of an environment."""

    environment: str
    champion: str


class Promote(TypedDict, total=False):
    """The policy to promote, and why."""

    policy: Required[str]  # One of the two.
    reason: Required[str]


class Start(TypedDict, total=False):
    """An experiment to start."""

    name: Required[str]
    policy_a: str  # Usually the champion.
    policy_b: str  # Usually the challenger.
    environment: str
    split: str  # The traffic split of a live experiment, instead of policies and environment.
    tasks: int  # Held-out tasks that both attempt; 2 to 2000.
    levels: Sequence[str]  # None: the usual levels.
    samples: int  # Trajectories per task; 1 to 16.
    steps: int  # Maximum steps per episode; 1 to 200.
    overlap: int  # Number of different people for each pair; 1 to 20.
    min_tasks: int  # Number of judged tasks before the rule may end it.
    trajectories: str  # "new" rollouts, "recorded" ones that exist already, or "live": sessions of a split as they end.
    held_out_only: bool  # With recorded trajectories.
