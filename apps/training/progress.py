"""What a worker records about the run it holds: progress, and the resulting policy. All writes are idempotent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Case, F, Value, When
from django.utils.timezone import now

from apps.jobs import lifecycle
from apps.jobs.models import Superseded, lease
from apps.policies.models import Checkpoint, Policy
from apps.policies.registration import free_name
from apps.training.folders import folder_of
from apps.training.models import Metric, Run, RunEvent


class TimelineEntry(NamedTuple):
    """An entry for the run's timeline."""

    at: datetime
    kind: str
    text: str
    details: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class TrainingStart:
    """The child process has loaded everything and is about to take its first step."""

    at: datetime
    step: int
    total_steps: int
    device: str
    parameters: int = 0


@dataclass(frozen=True)
class RunUpdate:
    """The combined effect of consecutive trainer events. `seq` and `offset` are those of the last one."""

    seq: int
    offset: int
    began: TrainingStart | None = None
    step: int | None = None
    total_steps: int | None = None
    step_seconds: float | None = None
    evaluation_seconds: float | None = None
    evaluations_ahead: int | None = None
    checkpoint_step: int | None = None
    memory_mb: float | None = None
    metrics: dict[int, dict[str, float | None]] = field(default_factory=dict)
    measured_at: dict[int, datetime] = field(default_factory=dict)
    """When each step's last metrics were logged; the current time if missing."""
    timeline: list[TimelineEntry] = field(default_factory=list)


MEASURED = (
    "step",
    "total_steps",
    "step_seconds",
    "evaluation_seconds",
    "evaluations_ahead",
    "checkpoint_step",
    "memory_mb",
)


@transaction.atomic
def apply(*, run: Run, update: RunUpdate) -> bool:
    """Store `update` atomically; False if it's already stored.

    Raises Superseded when another attempt holds the run.
    """
    changes: dict[str, Any] = {
        "events_seq": update.seq,
        "events_offset": update.offset,
        "leased_until": now() + lease(),
    }
    if update.began:
        changes |= {
            "state": Case(When(state=Run.State.STARTING, then=Value(Run.State.RUNNING)), default=F("state")),
            "running_since": update.began.at,
            "running_from": update.began.step,
            "step": update.began.step,
            "device": update.began.device[:100],
            "parameters": update.began.parameters or F("parameters"),
        }
    for name in MEASURED:
        if (value := getattr(update, name)) is not None:
            changes[name] = value
    if update.checkpoint_step is not None:  # a checkpoint is progress, which resets the count of consecutive losses
        changes |= {"losses": 0, "loss": ""}
        run.losses = 0
    held = Run.objects.held(run.attempt).filter(pk=run.pk)
    if not held.filter(events_seq__lt=update.seq).update(**changes):
        if held.exists():
            return False
        raise Superseded(run)
    if update.began and update.began.total_steps:
        # What a lost attempt measured after the checkpoint is of a model that no longer exists. STaR first says that it plays rollouts, of 0 steps.
        run.metrics.filter(step__gt=update.began.step).delete()
    _store_metrics(run, update)
    RunEvent.objects.bulk_create(
        RunEvent(run=run, at=entry.at, kind=entry.kind[:30], text=entry.text, details=dict(entry.details))
        for entry in update.timeline
    )
    return True


def _store_metrics(run: Run, update: RunUpdate) -> None:
    """Merge values into each step. An evaluation may report on a step that already has training metrics."""
    if not update.metrics:
        return
    table, current_time = Metric._meta.db_table, now()
    with connection.cursor() as cursor:
        cursor.executemany(
            f'INSERT INTO {table} (run_id, step, "values", at) VALUES (%s, %s, %s, %s) '  # the table name is our own constant
            f'ON CONFLICT (run_id, step) DO UPDATE SET "values" = {table}."values" || excluded."values", at = excluded.at',
            [
                (run.pk, step, json.dumps(values), update.measured_at.get(step, current_time))
                for step, values in sorted(update.metrics.items())
            ],
        )


@transaction.atomic
def finish(*, run: Run, report: dict[str, Any]) -> None:
    """Mark the run as done and register the policy it made. Raises Superseded."""
    lifecycle.finish(run, report=report)
    policy = register_result(run)
    RunEvent.objects.create(run=run, kind="finished", text=f"Finished. It created {policy.name}.")


KIND_MADE_BY = {
    Run.Algorithm.SFT: Policy.Kind.MODEL,
    Run.Algorithm.DPO: Policy.Kind.MODEL,
    Run.Algorithm.KTO: Policy.Kind.MODEL,
    Run.Algorithm.GRPO: Policy.Kind.MODEL,
    Run.Algorithm.RLOO: Policy.Kind.MODEL,
    Run.Algorithm.STAR: Policy.Kind.MODEL,
    Run.Algorithm.REWARD_MODEL: Policy.Kind.REWARD_MODEL,
    Run.Algorithm.PROCESS_REWARD_MODEL: Policy.Kind.PROCESS_MODEL,
}


def register_result(run: Run) -> Policy:
    """The policy that `run` made. Idempotent. Call it in the transaction that ends the run."""
    if run.result is not None:
        return run.result
    policy = Policy.objects.create(
        workspace=run.workspace,
        name=free_name(workspace_id=run.workspace_id, wanted=run.name),
        kind=KIND_MADE_BY[Run.Algorithm(run.algorithm)],
        base=run.base,
        settings={"parameters": run.parameters} if run.parameters else {},
        report=run.report,
    )
    Checkpoint.objects.bulk_create(
        Checkpoint(
            policy=policy,
            step=int(checkpoint.name.rpartition("-")[2]),
            location=f"{run.pk}/checkpoints/{checkpoint.name}",
        )
        for checkpoint in folder_of(run.pk).kept_checkpoints()
    )
    run.result = policy
    run.save(update_fields=["result"])
    return policy
