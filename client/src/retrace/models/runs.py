"""Training runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Reward(Answer):
    """A policy of the workspace that is a term of a training run's reward."""

    policy: str
    term: str  # Its name in the training run's curves.
    component: str
    weight: float


class Alarm(Answer):
    """A known way to go wrong that was seen in a training run's curves, and the one setting to resume with."""

    id: int
    at: datetime
    text: str
    setting: str  # Its path in the config.
    value: Any  # What to change it to.


class Change(Answer):
    """A setting that was changed when the training run was resumed: `details` has setting, from, to, and the step it holds from."""

    at: datetime
    text: str
    details: Any  # Of an alarm its name and the setting to try; of a change the setting, what it was and what it is.


class Run(Waitable):
    """A training run: what was asked, how far it is, what came of it."""

    id: str
    url: str  # Where to ask again.
    name: str
    algorithm: str
    version: str | None
    base: str | None
    preset: str
    config: Any  # The algorithm's settings, as the trainer validates them; the worker adds model and data.
    rewards: list[Reward]  # The learned terms of its reward.
    state: str
    step: int
    total_steps: int
    alarms: list[Alarm]  # The newest first.
    changes: list[Change]  # Settings that a resume changed, the newest first.
    checkpoint_step: int | None
    attempt: int  # How often a worker has taken it.
    worker: str  # host:process of the one that has it.
    device: str
    parameters: int | None  # Weights of the model, frozen ones included.
    memory_mb: float | None  # Of the child, at its last heartbeat.
    losses: int  # Attempts that were lost since it was started, or last got on.
    loss: str  # Why the last of them was lost.
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
    """What was measured at a step; where steps were put together, their means."""

    step: int
    values: dict[str, float]


class Launch(TypedDict, total=False):
    """A training run to launch. `config` changes settings of the preset, in the shape of the algorithm's run.json."""

    algorithm: Required[Literal["sft", "reward_model", "dpo", "kto", "process_reward_model", "grpo", "rloo", "star"]]
    version: str | None  # A frozen dataset version; none for grpo, rloo and star.
    base: str | None  # A language model; none makes a new small one (sft only).
    hub_base: str  # Instead of `base`: the id of a model on the hub, such as Qwen/Qwen3-0.6B.
    preset: Literal["quick", "standard", "thorough"]
    method: Literal["full", "lora", "qlora"]
    name: str
    config: Mapping[str, Any]  # Settings to change; whatever is left out is the preset’s.
