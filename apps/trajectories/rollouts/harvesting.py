"""What a worker writes about the rollouts it holds. Trajectories go in by the same code that imports use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from apps.common.broker import enqueue
from apps.common.leases import Superseded, lease
from apps.ingest.reading import read_line
from apps.trajectories.imports.copying import Origin, copy_in
from apps.trajectories.imports.preparing import Prepared, prepare
from apps.trajectories.models import JobState, RolloutBatch, RolloutBatchQuerySet
from apps.trajectories.rollouts.rolling_out import queue_rollouts

MAX_LOSSES = 3


def claim(batch_id: UUID | str, *, worker: str) -> RolloutBatch | None:
    """Take a waiting batch; None when it is cancelled, taken, or gone."""
    with transaction.atomic():
        taken = RolloutBatch.objects.filter(pk=batch_id, state=JobState.WAITING).update(
            state=JobState.RUNNING,
            attempt=F("attempt") + 1,
            worker=worker,
            process_id=None,
            leased_until=now() + lease(),
        )
        if not taken:
            return None
        batch = RolloutBatch.objects.select_related("policy__endpoint", "workspace").get(pk=batch_id)
        if batch.started_at is None:
            batch.started_at = now()
            batch.save(update_fields=["started_at"])
    return batch


def renew(batch: RolloutBatch) -> None:
    """Keep the batch for another lease. Raises Superseded when it was cancelled or is someone else's."""
    _write(batch, leased_until=now() + lease())


def note_process(batch: RolloutBatch, *, process_id: int) -> None:
    """Remember which child works on it. Raises Superseded."""
    _write(batch, process_id=process_id)


def note_total(batch: RolloutBatch, *, total: int) -> None:
    """How many episodes there really are, once the tasks are drawn. Raises Superseded."""
    _write(batch, total=total)


def prepare_line(batch: RolloutBatch, line: bytes) -> Prepared:
    """One line of the trainer's output, read by the importer of Retrace's own format.

    The batch becomes part of what the record says: two batches that play the same episode are two trajectories.
    """
    record = read_line(line)
    record.info = {**record.info, "rollout": str(batch.pk)}
    return prepare(record, line)


@transaction.atomic
def store(batch: RolloutBatch, prepared: Sequence[Prepared], *, begin: int, end: int) -> int:
    """Store the trajectories that stand in bytes `begin` to `end` of the output; up to which byte it is stored then.

    That is not `end` where they were stored already: the database took them, and went away before it could say so. Meanwhile
    the output has grown, so the caller goes on from there. Raises Superseded.
    """
    held = RolloutBatch.objects.held(batch.attempt).filter(pk=batch.pk)
    moved = held.filter(position=begin).update(
        position=end,
        finished=F("finished") + len(prepared),
        succeeded=F("succeeded") + sum(bool(each.columns["success"]) for each in prepared),
        leased_until=now() + lease(),
        losses=0,  # it gets on, so the workers that vanished before were not lost in a row
    )
    if not moved:
        stored = held.values_list("position", flat=True).first()
        if stored is None:
            raise Superseded(batch)
        return stored
    batch.losses = 0
    copy_in(
        prepared,
        Origin(batch.workspace_id, "rollout", rollout_batch_id=batch.pk, policy_id=batch.policy_id),
    )
    return end


def finish(batch: RolloutBatch) -> None:
    """Every episode is played. Raises Superseded."""
    _end(batch, state=JobState.DONE)


def fail(batch: RolloutBatch, *, failure: dict[str, Any]) -> None:
    """It cannot go on. Raises Superseded."""
    _end(batch, state=JobState.FAILED, failure=failure, error=failure["message"])


@transaction.atomic
def release(batch: RolloutBatch) -> None:
    """Give it back: its worker is going away in good order. Raises Superseded."""
    _write(batch, state=JobState.WAITING, worker="", process_id=None)
    queue_rollouts(batch)


def give_up_attempt(batch: RolloutBatch, *, reason: str) -> None:
    """For a worker whose own child fell silent. Raises Superseded."""
    if not _lose(batch, RolloutBatch.objects.held(batch.attempt).filter(pk=batch.pk), reason):
        raise Superseded(batch)


def recover_rollouts() -> list[RolloutBatch]:
    """Give orphaned batches to other workers and remind the workers of those that wait too long. Returns those changed."""
    recovered = []
    for batch in RolloutBatch.objects.orphaned().select_related("workspace")[:100]:
        lost = RolloutBatch.objects.orphaned().filter(pk=batch.pk, attempt=batch.attempt)
        if _lose(batch, lost, f"The worker {batch.worker} stopped answering"):
            recovered.append(batch)
    for batch in RolloutBatch.objects.overlooked()[:100]:
        queue_rollouts(batch)
    return recovered


@transaction.atomic
def _lose(batch: RolloutBatch, lost: RolloutBatchQuerySet, reason: str) -> bool:
    losses = batch.losses + 1
    if losses < MAX_LOSSES:
        if not lost.update(state=JobState.WAITING, losses=losses, worker="", process_id=None):
            return False
        queue_rollouts(batch)
        return True
    message = f"{reason}, as did {losses - 1} before it. It is not tried again by itself."
    failure = {
        "category": "lost",
        "message": message,
        "advice": "See why the workers die (their log, the machine's memory), then resume; finished episodes are kept.",
    }
    if not lost.update(
        state=JobState.FAILED, losses=losses, failure=failure, error=message, finished_at=now(), leased_until=None
    ):
        return False
    _tell_experiments()
    return True


@transaction.atomic
def _end(batch: RolloutBatch, **changes: Any) -> None:
    _write(batch, finished_at=now(), leased_until=None, process_id=None, **changes)
    _tell_experiments()


def _write(batch: RolloutBatch, **changes: Any) -> None:
    if not RolloutBatch.objects.held(batch.attempt).filter(pk=batch.pk).update(**changes):
        raise Superseded(batch)


def _tell_experiments() -> None:
    """Some experiment may wait for just this batch."""
    enqueue("experiments.advance_all")
