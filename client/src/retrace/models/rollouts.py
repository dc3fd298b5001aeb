"""Rollouts, played by Retrace or by runners."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Waitable


class Rollouts(Waitable):
    """A policy's attempts at tasks. `/trajectories?rollouts=<id>` lists the results."""

    id: str
    url: str  # URL for polling.
    policy: str
    environment: str
    config: Any  # Task selection, samples per task, sampling, and budgets.
    state: str
    total: int
    finished: int
    succeeded: int
    error: str
    losses: int  # Attempts lost since it was started or last made progress.
    loss: str  # Why the last attempt was lost.
    failure: Any  # Category, message, advice, last log lines, command.
    attempt: int  # How many times a worker has taken it.
    worker: str  # host:process of the worker that has it.
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def path(self) -> str:
        return address("/rollouts/{}", self.id)

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None

    @property
    def problem(self) -> str:
        return (self.error or f"The rollouts are {self.state}.") if self.state in ("failed", "cancelled") else ""

    @property
    def progress(self) -> Progress:
        return Progress(self.finished, self.total, "trajectories")


class StartRollouts(TypedDict, total=False):
    """Policy, tasks, and number of attempts. The same seed draws the same tasks."""

    policy: Required[str]  # A language model, a script, or a served model.
    environment: Required[str]
    split: Literal["held_out", "train"]
    levels: Sequence[str]  # If omitted, the environment's default levels.
    count: int  # Number of tasks.
    samples: int  # Attempts per task.
    temperature: float
    steps: int  # Maximum steps per attempt.
    tool_calls: Literal["native", "react"]  # react: plain text, for models without tool calling.
    seed: int
    played_by: Literal[
        "retrace", "runners"
    ]  # runners: your own programs lease the episodes, with `client.serve_agent`.
    tasks: Sequence[Any]  # With runners: each {key, instruction, initial_state, …}. Default: drawn from the workspace.
    lease_seconds: int  # With runners: a runner that is silent for this long loses its episode to another.
    deadline_seconds: int  # With runners, counted from the first lease: episodes not played by then are left out.
