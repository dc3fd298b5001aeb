"""Who works on an import. One worker at a time: taking a batch numbers the attempt, and every later write is fenced by that number."""

from __future__ import annotations

import os
import socket
from uuid import UUID

import psutil
from django.db import transaction
from django.db.models import F, Q
from django.utils.timezone import now

from apps.common.broker import enqueue
from apps.common.leases import REMIND_AFTER, Superseded, lease
from apps.trajectories.imports.uploading import TASK
from apps.trajectories.models import ImportBatch, JobState

MOST_LOSSES = 3
"""Workers that may vanish at the same record before the batch is given up."""


class NotRetryable(ValueError):
    """Only a failed or cancelled import can be started again."""

    def __init__(self, batch: ImportBatch) -> None:
        super().__init__(
            f"This import is {batch.get_state_display().lower()}; only a failed or cancelled one can be resumed."
        )


def this_worker() -> str:
    """How this process signs its work."""
    return f"{socket.gethostname()}/{os.getpid()}"


@transaction.atomic
def claim(batch_id: UUID | str, *, worker: str) -> ImportBatch | None:
    """Take a batch that waits, or whose worker has vanished; None when it is over, or in good hands."""
    batch = ImportBatch.objects.active().filter(pk=batch_id).first()
    if batch is None:
        return None
    free = Q(state=JobState.WAITING) | Q(leased_until__lt=now())
    if batch.state == JobState.RUNNING and _has_died(batch.worker):
        free |= Q(worker=batch.worker, attempt=batch.attempt)
    was_lost = batch.state == JobState.RUNNING
    taken = (
        ImportBatch.objects.active()
        .filter(free, pk=batch_id)
        .update(
            state=JobState.RUNNING,
            attempt=F("attempt") + 1,
            worker=worker,
            losses=F("losses") + int(was_lost),
            leased_until=now() + lease(),
            started_at=batch.started_at or now(),
            error="",
        )
    )
    if not taken:
        return None
    batch.refresh_from_db()
    if batch.losses >= MOST_LOSSES:
        fail(
            batch,
            f"{batch.losses} workers vanished while importing record {batch.position + 1:,} or one soon after it. It may need "
            "more memory than a worker has. What came before is in; remove the record, or give the worker more memory and retry.",
        )
        return None
    return batch


def renew(batch: ImportBatch) -> None:
    """Keep the batch for another lease. Raises Superseded when it is no longer this attempt's."""
    if not ImportBatch.objects.held(batch.attempt).filter(pk=batch.pk).update(leased_until=now() + lease()):
        raise Superseded(batch)


def finish(batch: ImportBatch) -> None:
    """Everything in the file is dealt with. Raises Superseded."""
    done = ImportBatch.objects.held(batch.attempt).filter(pk=batch.pk)
    if not done.update(state=JobState.DONE, finished_at=now(), bytes_read=F("size")):
        raise Superseded(batch)
    batch.refresh_from_db()


def fail(batch: ImportBatch, error: str) -> None:
    """The file as a whole cannot go on; what is in stays in. Raises Superseded."""
    held = ImportBatch.objects.held(batch.attempt).filter(pk=batch.pk)
    if not held.update(state=JobState.FAILED, finished_at=now(), error=error):
        raise Superseded(batch)
    batch.refresh_from_db()


def cancel(batch: ImportBatch) -> bool:
    """Stop a batch that waits or runs; its worker notices at its next write. False when it was over already."""
    stopped = ImportBatch.objects.active().filter(pk=batch.pk).update(state=JobState.CANCELLED, finished_at=now())
    batch.refresh_from_db()
    return bool(stopped)


@transaction.atomic
def retry(batch: ImportBatch) -> None:
    """Start a failed or cancelled batch again, from where it stopped. Raises NotRetryable."""
    again = ImportBatch.objects.filter(pk=batch.pk, state__in=[JobState.FAILED, JobState.CANCELLED])
    if not again.update(
        state=JobState.WAITING, error="", losses=0, finished_at=None, leased_until=now() + REMIND_AFTER
    ):
        batch.refresh_from_db()
        raise NotRetryable(batch)
    batch.refresh_from_db()
    enqueue(TASK, str(batch.pk))


def recover() -> int:
    """Tell the workers about batches whose worker vanished and about those that nobody took; answers how many."""
    forgotten = [*ImportBatch.objects.orphaned()[:100], *ImportBatch.objects.overlooked()[:100]]
    for batch in forgotten:
        enqueue(TASK, str(batch.pk))
    waiting = [batch.pk for batch in forgotten if batch.state == JobState.WAITING]
    ImportBatch.objects.filter(pk__in=waiting, state=JobState.WAITING).update(leased_until=now() + REMIND_AFTER)
    return len(forgotten)


def _has_died(worker: str) -> bool:
    """Whether a worker of this host is gone for certain; others are believed until their lease expires."""
    host, _, process_id = worker.rpartition("/")
    return host == socket.gethostname() and process_id.isdigit() and not psutil.pid_exists(int(process_id))
