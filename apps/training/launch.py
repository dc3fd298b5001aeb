"""Launches a run: a worker checks what only a worker can (whether the model exists, its size, whether it fits); then the plan is stored.

A worker of the `default` queue answers the page within about a second, and its answer is cached under the plan's hash. Nothing relies on
it: the worker that takes the run checks again before it starts anything.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from uuid import UUID

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
"""Lifetime of a question to the workers. If it isn't answered within this time, it expires and is asked again."""
MAX_ASKED = 2
"""Maximum number of unanswered questions per workspace. A worker may wait for the hub, and the workers of `default` have other tasks."""
ANSWER_SECONDS = 120
"""Answers expire soon, since folders and free memory change."""


@dataclass(frozen=True)
class Refusal:
    """One reason why the plan can't run, and what to change."""

    field: str
    message: str


@dataclass(frozen=True)
class Check:
    """A worker's answer; `pending` until it arrives."""

    state: Literal["pending", "passed", "refused"] = "pending"
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parameters: int | None = None
    memory_mb: float | None = None
    """Estimated peak memory of the run."""
    capacity_mb: float | None = None
    """Memory of the training worker; None if no worker has reported it."""
    device: str = ""
    disk_mb: float | None = None
    """Disk space for checkpoints and the model."""
    seconds_low: float | None = None
    """Lower end of the estimated training time. If both ends are equal, the estimate is only good to about a factor of two."""
    seconds_high: float | None = None
    time_words: str = ""
    """What the estimate is based on, or why there is none."""
    run_json: str = ""

    @property
    def memory_size(self) -> float | None:
        """Estimated memory in bytes, for the page."""
        return self.memory_mb * 1e6 if self.memory_mb is not None else None

    @property
    def capacity_size(self) -> float | None:
        return self.capacity_mb * 1e6 if self.capacity_mb is not None else None

    @property
    def disk_size(self) -> float | None:
        return self.disk_mb * 1e6 if self.disk_mb is not None else None


class RefusedByWorker(LaunchRefused):
    """A worker checked the plan and refused it."""


def key_of(plan: Plan) -> str:
    """The cache key of the plan's answer, shared by equal plans."""
    return "preflight:" + hashlib.sha256(json.dumps(plan.as_json(), sort_keys=True).encode()).hexdigest()


def check_with_worker(plan: Plan) -> Check:
    """The cached answer, or a pending one. The question is sent only once, when its workspace has fewer than MAX_ASKED unanswered questions."""
    key = key_of(plan)
    if (answer := cache.get(key)) is not None:
        return _read(answer)
    places = _places(plan.workspace.pk)
    if key not in cache.get_many(places).values() and any(cache.add(place, key, ASKED_SECONDS) for place in places):
        enqueue_at_once(CHECK_TASK, key, plan.as_json(), seconds=ASKED_SECONDS)
    return Check()


def _places(workspace_id: UUID | str) -> list[str]:
    return [f"preflight:{workspace_id}:{number}" for number in range(MAX_ASKED)]


def wait_for_check(plan: Plan, *, seconds: float) -> Check:
    """The worker's answer, or a pending one if it doesn't arrive within `seconds`."""
    deadline = time.monotonic() + seconds
    while (check := check_with_worker(plan)).state == "pending" and time.monotonic() < deadline:
        time.sleep(0.1)
    return check


def refuse_if_known(plan: Plan, *, seconds: float) -> None:
    """Raises RefusedByWorker if a worker refuses the plan within `seconds`."""
    check = wait_for_check(plan, seconds=seconds)
    for refusal in check.refusals:
        raise RefusedByWorker(refusal.message, field=refusal.field)


def answer(key: str, check: Check, *, workspace_id: UUID | str) -> None:
    """Store a worker's answer, and make room for the workspace's next question."""
    cache.set(key, asdict(check), ANSWER_SECONDS)
    cache.delete_many(
        [place for place, checked_key in cache.get_many(_places(workspace_id)).items() if checked_key == key]
    )


def _read(data: dict[str, Any]) -> Check:
    return Check(**{**data, "refusals": [Refusal(**refusal) for refusal in data["refusals"]]})


TASK = "training.run"


def _record_event(run: Run, event: Event) -> None:
    """Add it to the run's timeline and to the open pages of the run."""
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
        on_event=_record_event,
        webhook_events={Phase.DONE: EventType.RUN_FINISHED, Phase.FAILED: EventType.RUN_FAILED},
        webhook_data=lambda run: {"algorithm": run.algorithm},
        related=("version__dataset", "base__endpoint", "workspace"),
        attempt_defaults={"running_since": None, "step_seconds": None, "evaluation_seconds": None},
        turns_at="train",
        is_cancellable=True,
        is_resumable=True,
    )
)


@transaction.atomic
def launch_run(*, plan: Plan, by: User) -> Run:
    """Queue the run that `plan` describes. A base from the hub is registered if the workspace doesn't have it yet."""
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
        target=run,
        algorithm=plan.algorithm,
        version=str(plan.version or ""),
        config=plan.stored,
    )
    queue(run)
    return run
