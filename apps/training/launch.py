"""Launching a run: a worker is asked what only it can tell about the plan, whether the model is there, how large it is, whether it fits; then what the plan says is stored.

The page asks, a worker of the `default` queue answers within a second or so, and the answer waits in the cache under the plan's own hash. Nothing depends on
it: the worker that takes the run looks again before it starts anything.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from django.core.cache import cache
from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.models import User
from apps.common.broker import enqueue_at_once
from apps.jobs.lifecycle import queue
from apps.jobs.models import Event, Kind, Phase, register
from apps.policies.registration import register_hub_base
from apps.training.live import show
from apps.training.models import Run, RunEvent, RunReward
from apps.training.plan import Plan
from apps.training.refusals import LaunchRefused
from apps.webhooks.events import EventType

CHECK_TASK = "preflight.check"
ASKED_SECONDS = 20
"""After so long without an answer the question is asked again."""
ANSWER_SECONDS = 120
"""Folders and free memory change, so answers are short-lived."""


@dataclass(frozen=True)
class Refusal:
    """One reason against, and what to change."""

    field: str
    message: str


@dataclass(frozen=True)
class Check:
    """A worker's answer; `pending` until there is one."""

    state: Literal["pending", "passed", "refused"] = "pending"
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parameters: int | None = None
    memory_mb: float | None = None
    """What the run will need at its peak, as far as can be said."""
    capacity_mb: float | None = None
    """What the training worker has; None when none has told."""
    device: str = ""
    disk_mb: float | None = None
    """What checkpoints and the model will take."""
    seconds_low: float | None = None
    """What training will take lies between this and the next; where both are one figure, it is right within a factor of two or so."""
    seconds_high: float | None = None
    time_words: str = ""
    """What the time rests on, or why nobody knows it."""
    run_json: str = ""

    @property
    def memory_size(self) -> float | None:
        """In bytes, for the page."""
        return self.memory_mb * 1e6 if self.memory_mb is not None else None

    @property
    def capacity_size(self) -> float | None:
        return self.capacity_mb * 1e6 if self.capacity_mb is not None else None

    @property
    def disk_size(self) -> float | None:
        return self.disk_mb * 1e6 if self.disk_mb is not None else None


class RefusedByWorker(LaunchRefused):
    """A worker looked and said no."""


def key_of(plan: Plan) -> str:
    """Names the plan's answer. Equal plans share it."""
    return "preflight:" + hashlib.sha256(json.dumps(plan.as_json(), sort_keys=True).encode()).hexdigest()


def check_with_worker(plan: Plan) -> Check:
    """The answer if there is one, else a pending one; the question goes out once."""
    key = key_of(plan)
    if (answer := cache.get(key)) is not None:
        return _read(answer)
    if cache.add(f"{key}:asked", True, ASKED_SECONDS):
        enqueue_at_once(CHECK_TASK, key, plan.as_json())
    return Check()


def wait_for_check(plan: Plan, *, seconds: float) -> Check:
    """The same, with some patience."""
    deadline = time.monotonic() + seconds
    while (check := check_with_worker(plan)).state == "pending" and time.monotonic() < deadline:
        time.sleep(0.1)
    return check


def refuse_if_known(plan: Plan, *, seconds: float) -> None:
    """Raises RefusedByWorker if a worker says within `seconds` that it cannot be."""
    check = wait_for_check(plan, seconds=seconds)
    for refusal in check.refusals:
        raise RefusedByWorker(refusal.message, field=refusal.field)


def answer(key: str, check: Check) -> None:
    """For the worker."""
    cache.set(key, asdict(check), ANSWER_SECONDS)


def _read(stored: dict[str, Any]) -> Check:
    return Check(**{**stored, "refusals": [Refusal(**each) for each in stored["refusals"]]})


TASK = "training.run"


def _write_down(run: Run, event: Event) -> None:
    """Put it on the run's timeline, and show it to those who look at the run."""
    if event.text:
        RunEvent.objects.create(run=run, kind=event.kind, text=event.text)
    transaction.on_commit(lambda: show(run.pk), robust=True)


RUNS = register(
    Kind(
        name="training_runs",
        noun="training run",
        label="Training run",
        model=Run,
        task=lambda run: TASK,
        title=lambda run: run.name,
        url=lambda run: reverse("training:run", args=[run.pk]),
        on_event=_write_down,
        announced={Phase.DONE: EventType.RUN_FINISHED, Phase.FAILED: EventType.RUN_FAILED},
        facts=lambda run: {"algorithm": run.algorithm},
        related=("version__dataset", "base__endpoint", "workspace"),
        afresh={"running_since": None, "step_seconds": None, "evaluation_seconds": None},
        is_cancellable=True,
        is_resumable=True,
    )
)


@transaction.atomic
def launch_run(*, plan: Plan, by: User) -> Run:
    """Queue the run that `plan` describes, and register its base if the hub has it and the workspace doesn't know it yet."""
    base = plan.base
    if plan.hub_id:
        base = register_hub_base(workspace=plan.workspace, hub_id=plan.hub_id, by=by)
    run = Run.objects.create(
        workspace=plan.workspace,
        name=plan.name,
        algorithm=plan.algorithm,
        version=plan.version,
        base=base,
        preset=plan.preset,
        config=plan.stored,
        total_steps=plan.steps,
        created_by=by,
    )
    RunReward.objects.bulk_create(
        RunReward(run=run, policy=reward.policy, term=reward.term, component=reward.component, weight=reward.weight)
        for reward in plan.rewards
    )
    RunEvent.objects.create(run=run, kind="launched", text=f"Launched by {by}.")
    audit.record(
        workspace=plan.workspace,
        actor=by,
        action="launched a training run",
        subject=run.name,
        about=run,
        algorithm=plan.algorithm,
        version=str(plan.version or ""),
        config=plan.stored,
    )
    queue(run)
    return run
