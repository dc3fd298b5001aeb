"""Training runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Reward(Answer):
    """A policy of the workspace used as a reward term of a training run."""

    policy: str
    term: str  # The term's name in the training run's curves.
    component: str
    weight: float


class Alarm(Answer):
    """A known failure mode detected in a training run's curves, and the setting to change when resuming."""

    id: int
    at: datetime
    text: str
    setting: str  # Its path in the config.
    value: Any  # The suggested value.


class Change(Answer):
    """A setting changed when the training run was resumed: `details` has setting, from, to, and the step from which it applies."""

    at: datetime
    text: str
    details: Any  # For an alarm: its name and the suggested setting; for a change: the setting, the old value, and the new one.


class Run(Waitable):
    """A training run: its configuration, progress, and results."""

    id: str
    url: str  # URL for polling.
    name: str
    algorithm: str
    version: str | None
    base: str | None
    preset: str
    config: Any  # The algorithm's settings as validated by the trainer; the worker adds model and data.
    rewards: list[Reward]  # The learned terms of its reward.
    state: str
    step: int
    total_steps: int
    alarms: list[Alarm]  # Newest first.
    changes: list[Change]  # Settings changed when resuming, the newest first.
    checkpoint_step: int | None
    attempt: int  # How many times a worker has taken it.
    worker: str  # host:process of the worker that has it.
    device: str
    parameters: int | None  # Number of model parameters, including frozen ones.
    memory_mb: float | None  # Memory of the child process at its last heartbeat.
    losses: int  # Attempts lost since it was started or last made progress.
    loss: str  # Why the last attempt was lost.
    failure: Any  # Category, message, advice, last log lines, command.
    report: Any
    result: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def path(self) -> str:
        return address("/runs/{}", self.id)

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None

    @property
    def problem(self) -> str:
        if self.state == "cancelled":
            return "The training run was cancelled."
        if self.state != "failed":
            return ""
        failure = self.failure or {}
        return " ".join(filter(None, (failure.get("message"), failure.get("advice")))) or "The training run failed."

    @property
    def progress(self) -> Progress:
        return Progress(self.step, self.total_steps, "steps")


class Point(Answer):
    """Measurements at a step; means if steps were aggregated."""

    step: int
    values: dict[str, float]


class Launch(TypedDict, total=False):
    """A training run to launch. `config` changes settings of the preset, in the shape of the algorithm's run.json."""

    algorithm: Required[Literal["sft", "reward_model", "dpo", "kto", "process_reward_model", "grpo", "rloo", "star"]]
    version: str | None  # A frozen dataset version; none for grpo, rloo, and star.
    base: str | None  # A language model; without one a new small model is made (sft only).
    hub_base: str  # Instead of `base`: the id of a model on the hub, such as Qwen/Qwen3-0.6B.
    preset: Literal["quick", "standard", "thorough"]
    method: Literal["full", "lora", "qlora"]
    name: str
    config: Mapping[str, Any]  # Settings to change; all others come from the preset.
