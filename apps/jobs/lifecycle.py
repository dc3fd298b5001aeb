"""The life of a job, whatever its kind: queue, claim, renew, finish, fail, release, lose, cancel, resume, recover.

Each is one transaction and one conditional update. A worker's writes are conditional on its attempt (`write`), so they raise Superseded
if another worker has the job, or it's over. Everything is idempotent.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event as Flag
from threading import Thread
from typing import Any
from uuid import UUID

import psutil
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import User
from apps.common.broker import enqueue
from apps.jobs import lanes
from apps.jobs.models import (
    RESEND_AFTER,
    Event,
    Failure,
    J,
    Job,
    JobQuerySet,
    Kind,
    Phase,
    Superseded,
    kind_of_job,
    kinds,
    lease,
)
from apps.jobs.turns import job_in_turn, record_turn
from apps.webhooks.outbox import announce

log = logging.getLogger(__name__)

BATCH_SIZE = 100


class JobRefusal(Exception):
    """The action isn't possible in the job's current state."""

    condition = ""

    def __init__(self, job: Job) -> None:
        state = job.get_state_display().lower()  # type: ignore[attr-defined]  # every kind's state has choices
        super().__init__(f"This {kind_of_job(job).noun} is {state}; {self.condition}.")


class NotActive(JobRefusal):
    """The job has ended, or is already being cancelled."""

    condition = "only one that waits or runs can be cancelled"


class NotResumable(JobRefusal):
    """Only a cancelled or failed job can be resumed."""

    condition = "only a cancelled or failed one can be resumed"


class NotControllable(JobRefusal):
    """Jobs of this kind can't be cancelled or resumed."""

    condition = "jobs of its kind can't be cancelled or resumed"


def this_worker() -> str:
    """This process's worker name: host and pid."""
    return f"{socket.gethostname()}:{os.getpid()}"


def queue(job: Job) -> None:
    """Notify the workers of a waiting job, and schedule a reminder in case the message is lost."""
    kind = kind_of_job(job)
    kind.rows.waiting().filter(pk=job.pk).update(leased_until=now() + RESEND_AFTER)
    enqueue(kind.task(job), str(job.pk))


@transaction.atomic
def claim(kind: Kind[J], job_id: UUID | str, *, worker: str = "") -> J | None:
    """Claim a waiting job for this process; None if it's over, held by a live worker, or deleted, or if its workspace has no free place in its lane.

    If its worker's lease has expired, or its process on this machine is gone, the job is recovered first.
    """
    worker = worker or this_worker()
    job = _take_back(kind, job_id)
    if job is None:
        return None
    if kind.lane and lanes.has_its_share(kind, job):
        return None  # the end of the workspace's other job notifies the workers of this one
    waiting = kind.rows.waiting().filter(pk=job.pk)
    if not waiting.update(
        state=kind.state(Phase.RUNNING),
        attempt=F("attempt") + 1,
        worker=worker,
        process_id=None,
        leased_until=now() + lease(),
        started_at=Coalesce("started_at", Value(now())),
        **kind.attempt_defaults,
    ):
        return None
    job = kind.rows.select_related(*kind.related).get(pk=job.pk)
    record_turn(job)
    attempt_text = "" if job.attempt == 1 else f" (attempt {job.attempt})"
    kind.on_event(job, Event("taken", f"Taken by {worker}{attempt_text}."))
    return job


def claim_in_turn(kind: Kind[Any], job_id: UUID | str, *, worker: str = "") -> Job | None:
    """In a worker queue where workspaces take turns: claim the job whose turn it is, which may be of another kind. None if none is waiting."""
    _take_back(kind, job_id)
    while (job := job_in_turn(kind.turns_at)) is not None:
        try:
            claimed: Job | None = claim(kind_of_job(job), job.pk, worker=worker)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # it would stay first in turn, and no other workspace's job would begin
            log.exception("%s %s can't be claimed", kind_of_job(job).noun, job.pk)
            _fail_unclaimed(job, error)
            continue
        if claimed is not None:  # otherwise another worker was faster, and this message is for another job
            return claimed
    return None


@transaction.atomic
def _fail_unclaimed(job: Job, error: Exception) -> None:
    kind = kind_of_job(job)
    failure = Failure("crash", f"No worker could begin it ({type(error).__name__}).", "Start it anew.")
    ended = _ended_columns(kind, Phase.FAILED)
    if kind.rows.waiting().filter(pk=job.pk).update(failure=failure.as_json(), **ended):
        job.refresh_from_db()
        _announce(job)


def _take_back(kind: Kind[J], job_id: UUID | str) -> J | None:
    """The job, recovered if its worker is gone."""
    job = kind.rows.filter(pk=job_id).first()
    if job is not None:
        held = kind.rows.held(job.attempt).filter(pk=job.pk)
        _take_away(job, held if _is_gone(job.worker) else held.filter(leased_until__lt=now()))
    return job


def _queue_next_of_lane(job: Job) -> None:
    """Once the transaction commits, notify the workers of the jobs that this one kept waiting."""
    for find in lanes.kept_waiting(job):
        transaction.on_commit(partial(_queue_found, find), robust=True)


def _queue_found(find: Callable[[], Job | None]) -> None:
    if job := find():
        queue(job)


def write(job: Job, **changes: Any) -> None:
    """Update columns of the job. Raises Superseded."""
    if not kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk).update(**changes):
        raise Superseded(job)


def hold(job: Job) -> None:
    """Keep other workers from claiming the job until the transaction ends, to protect writes to other tables that a later attempt also makes. Raises Superseded."""
    held = kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk)
    if not held.select_for_update(no_key=True).values_list("pk"):
        raise Superseded(job)


def renew(job: Job) -> Phase:
    """Renew the lease, and refresh the phase, since a cancellation may have been requested. Raises Superseded."""
    write(job, leased_until=now() + lease())
    state = kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk).values_list("state", flat=True).first()
    if state is None:
        raise Superseded(job)
    return job.PHASES[state]


@contextmanager
def lease_kept(job: Job, progress: Callable[[], Mapping[str, Any]] = dict) -> Iterator[None]:
    """Renew the lease in the background, for work without frequent writes. Raises Superseded if it's already lost.

    progress: columns to write with each renewal, for work within one transaction, whose own writes aren't visible yet.
    """
    ended = Flag()

    def renew_until_ended() -> None:
        try:
            with suppress(Superseded):  # the next write also detects it
                while not ended.wait(lease().total_seconds() / 4):
                    try:
                        write(job, leased_until=now() + lease(), **progress())
                    except (OperationalError, InterfaceError):  # only this connection may have broken
                        connection.close()
        finally:
            connection.close()  # this thread's own connection

    write(job, leased_until=now() + lease())
    thread = Thread(target=renew_until_ended, name="renews-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def record_progress(job: Job, **changes: Any) -> None:
    """Store progress, which resets the count of consecutive losses. Raises Superseded."""
    write(job, leased_until=now() + lease(), losses=0, loss="", **changes)
    job.losses, job.loss = 0, ""


def finish(job: Job, **changes: Any) -> None:
    """Mark the job finished. Raises Superseded."""
    _end(job, Event("finished", ""), Phase.DONE, {"failure": {}, "losses": 0, "loss": "", **changes})


def fail(job: Job, failure: Failure, **changes: Any) -> None:
    """Mark the job failed. Raises Superseded."""
    _end(job, Event("failed", failure.message), Phase.FAILED, {"failure": failure.as_json(), **changes})


def stop(job: Job, reason: str, **changes: Any) -> None:
    """Mark the job stopped, because it was cancelled or reached its limit. Raises Superseded."""
    _end(job, Event("cancelled", reason), Phase.CANCELLED, changes)


@transaction.atomic
def release(job: Job, reason: str) -> None:
    """Requeue the job because its worker is shutting down. Raises Superseded."""
    kind = kind_of_job(job)
    held = kind.rows.held(job.attempt).filter(pk=job.pk)
    # If a cancellation arrived while the worker shut down, the next one must not continue.
    if kind.stops_gracefully and held.in_phase(Phase.STOPPING).update(**_ended_columns(kind, Phase.CANCELLED)):
        kind.on_event(job, Event("cancelled", "It stopped when asked to."))
        return
    if not held.update(**_waiting_columns(kind)):
        raise Superseded(job)
    job.refresh_from_db()
    kind.on_event(job, Event("requeued", reason))
    queue(job)


def lose(job: Job, reason: str, *, failure: Failure | None = None) -> None:
    """Give up this attempt although its worker is alive: its child died or hung. Raises Superseded.

    failure: what to report if this was the last attempt.
    """
    if not _lose(job, kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk), reason, failure):
        raise Superseded(job)


@transaction.atomic
def _lose(job: J, lost: JobQuerySet[J], reason: str, failure: Failure | None = None) -> bool:
    """End the attempt: cancelled if requested, failed after too many losses, otherwise requeued."""
    kind, losses = kind_of_job(job), job.losses + 1
    reason = reason.rstrip(".")
    # Decided within the statement, since a cancellation may be concurrent.
    if kind.stops_gracefully and lost.in_phase(Phase.STOPPING).update(**_ended_columns(kind, Phase.CANCELLED)):
        job.refresh_from_db()
        text = f"{reason} while it was being cancelled, so it counts as cancelled."
        kind.on_event(job, Event("cancelled", text))
        return True
    if losses >= job.MAX_LOSSES:
        failure = failure or _failure_after_losses(job, losses)
        ended = _ended_columns(kind, Phase.FAILED)
        if not lost.update(losses=losses, loss=reason, failure=failure.as_json(), **ended):
            return False
        job.refresh_from_db()
        kind.on_event(job, Event("failed", failure.message))
        _announce(job)
        _queue_next_of_lane(job)
        return True
    if not lost.update(losses=losses, loss=reason, **_waiting_columns(kind)):
        return False
    job.refresh_from_db()
    text = f"{reason}. Queued again: the next attempt continues from {job.resumes_from}."
    kind.on_event(job, Event("lost", text))
    queue(job)
    return True


def _failure_after_losses(job: Job, losses: int) -> Failure:
    kind = kind_of_job(job)
    return Failure(
        category="lost",
        message=f"{losses} workers in a row stopped answering while they had this {kind.noun}; it isn't retried automatically.",
        advice=job.advice_when_lost,
    )


@transaction.atomic
def _end(job: Job, event: Event, phase: Phase, changes: dict[str, Any]) -> None:
    kind = kind_of_job(job)
    write(job, **{**_ended_columns(kind, phase), **changes})
    job.refresh_from_db()
    kind.on_event(job, event)
    _announce(job)
    _queue_next_of_lane(job)


def _announce(job: Job) -> None:
    """Announce its end to webhooks, if its kind has such an event."""
    kind = kind_of_job(job)
    event = kind.webhook_events.get(job.phase)
    if event is not None:
        data = {"id": str(job.pk), **kind.webhook_data(job)}
        announce(event, workspace_id=job.workspace_id, name=kind.title(job), page=kind.url(job), **data)


def _ended_columns(kind: Kind[Any], phase: Phase) -> dict[str, Any]:
    return {"state": kind.state(phase), "finished_at": now(), "leased_until": None, "process_id": None}


def _waiting_columns(kind: Kind[Any]) -> dict[str, Any]:
    return {"state": kind.state(Phase.WAITING), "queued_at": now(), "worker": "", "process_id": None}


@transaction.atomic
def cancel(job: J, *, by: User | None) -> J:
    """Cancel a job: immediately if no worker has it or its kind needs no graceful stop, otherwise once its worker has saved its state.

    Raises NotActive if it's over or already being cancelled, and NotControllable.
    """
    kind = kind_of_job(job)
    if not kind.is_cancellable:
        raise NotControllable(job)
    rows = kind.rows.filter(pk=job.pk)
    immediate_phases = (Phase.WAITING,) if kind.stops_gracefully else (Phase.WAITING, Phase.RUNNING)
    if rows.waiting().update(**_ended_columns(kind, Phase.CANCELLED)):
        event = Event("cancelling", f"Cancelled by {by} while it was waiting.")
    elif rows.in_phase(*immediate_phases).update(**_ended_columns(kind, Phase.CANCELLED)):
        event = Event("cancelling", f"Cancelled by {by}.")
        _queue_next_of_lane(job)
    elif kind.stops_gracefully and rows.in_phase(Phase.RUNNING).update(state=kind.state(Phase.STOPPING)):
        event = Event("cancelling", f"{by} asked it to stop.")
    else:
        job.refresh_from_db()
        raise NotActive(job)
    return _record_action(job, by, "cancelled", event)


@transaction.atomic
def resume(job: J, *, by: User | None) -> J:
    """Requeue a cancelled or failed job; it continues where it stopped. Raises NotResumable, NotControllable."""
    kind = kind_of_job(job)
    if not kind.is_resumable:
        raise NotControllable(job)
    rows = kind.rows.in_phase(*kind.resumable).filter(pk=job.pk)
    if not rows.update(failure={}, losses=0, loss="", finished_at=None, **_waiting_columns(kind)):
        job.refresh_from_db()
        raise NotResumable(job)
    if changes := kind.before_resuming(job, by):
        kind.rows.filter(pk=job.pk).update(**changes)
    job = _record_action(job, by, "resumed", Event("resumed", f"Resumed by {by}, from {job.resumes_from}."))
    queue(job)
    return job


def _record_action(job: J, by: User | None, action: str, event: Event) -> J:
    kind = kind_of_job(job)
    job.refresh_from_db()
    kind.on_event(job, event)
    audit.record(workspace=job.workspace, actor=by, action=f"{action} {kind.noun}", subject=kind.title(job), target=job)
    return job


def recover_all() -> None:
    """Recover jobs of every kind; an error in one kind doesn't affect the others."""
    for kind in kinds():
        try:
            recover(kind)
        except Exception:
            log.exception("%s could not be recovered; trying again in a few seconds", kind.name)


def recover(kind: Kind[J]) -> list[J]:
    """Requeue orphaned jobs, and resend messages for jobs that wait too long. Returns the lost ones.

    Conditional on the lease that was seen expired, so a worker that renews concurrently keeps its job. A job for which that fails is logged, and
    doesn't keep those of other workspaces waiting.
    """
    lost = []
    for job in kind.rows.orphaned().order_by("leased_until")[:BATCH_SIZE]:
        with _logged(job):
            if _take_away(job, kind.rows.orphaned().filter(pk=job.pk, attempt=job.attempt)):
                lost.append(job)
    with transaction.atomic():
        for job in kind.rows.overdue().select_for_update(skip_locked=True)[:BATCH_SIZE]:
            with _logged(job), transaction.atomic():
                queue(job)
    return lost


@contextmanager
def _logged(job: Job) -> Iterator[None]:
    """Log an error with this job instead of raising it, unless the database is down."""
    try:
        yield
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("%s %s could not be recovered", kind_of_job(job).noun, job.pk)


@transaction.atomic
def _take_away(job: J, lost: JobQuerySet[J]) -> bool:
    """End the attempt of a worker that stopped answering; False if it's over, or if a transaction still holds the job.

    A worker that was suspended within a transaction may hold it for hours. Waiting for that would block one worker after another.
    """
    if not lost.select_for_update(skip_locked=True).values_list("pk"):
        return False
    return _lose(job, lost, f"The worker {job.worker} stopped answering")


def _is_gone(worker: str) -> bool:
    """Whether a worker on this machine has certainly died; others are trusted until their lease expires."""
    host, _, process_id = worker.rpartition(":")
    return host == socket.gethostname() and process_id.isdigit() and not psutil.pid_exists(int(process_id))
