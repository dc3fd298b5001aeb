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
from threading import Event as Flag
from threading import Thread
from typing import Any
from uuid import UUID

import psutil
from django.db import connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.common.broker import enqueue
from apps.jobs.models import (
    HELD,
    REMIND_AFTER,
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
from apps.webhooks.outbox import announce

log = logging.getLogger(__name__)

AT_A_TIME = 100


class JobRefusal(Exception):
    """The action isn't possible in the job's current state."""

    able = ""

    def __init__(self, job: Job) -> None:
        state = job.get_state_display().lower()  # type: ignore[attr-defined]  # every kind's state has choices
        super().__init__(f"This {kind_of_job(job).noun} is {state}; {self.able}.")


class NotActive(JobRefusal):
    """The job has ended, or is already being cancelled."""

    able = "only one that waits or runs can be cancelled"


class NotResumable(JobRefusal):
    """Only a cancelled or failed job can be resumed."""

    able = "only a cancelled or failed one can be resumed"


class NotSteerable(JobRefusal):
    """Jobs of this kind can't be cancelled or resumed."""

    able = "jobs of its kind run to their end and are not taken up again"


def this_worker() -> str:
    """This process's worker name: host and pid."""
    return f"{socket.gethostname()}:{os.getpid()}"


def queue(job: Job) -> None:
    """Notify the workers of a waiting job, and schedule a reminder in case the message is lost."""
    kind = kind_of_job(job)
    kind.rows.waiting().filter(pk=job.pk).update(leased_until=now() + REMIND_AFTER)
    enqueue(kind.task(job), str(job.pk))


@transaction.atomic
def claim(kind: Kind[J], job_id: UUID | str, *, worker: str = "") -> J | None:
    """Claim a waiting job for this process; None if it's over, held by a live worker, or deleted, or if it isn't its workspace's turn.

    If its worker's lease has expired, or its process on this machine is gone, the job is recovered first.
    """
    worker = worker or this_worker()
    job = kind.rows.filter(pk=job_id).first()
    if job is None:
        return None
    held = kind.rows.held(job.attempt).filter(pk=job.pk)
    _lose(job, held if _is_gone(job.worker) else held.filter(leased_until__lt=now()), _silent(job))
    if kind.lane and _is_another_held(kind, job):
        return None  # whoever ends that one hands on
    taken = kind.rows.waiting().filter(pk=job.pk)
    if not taken.update(
        state=kind.state(Phase.RUNNING),
        attempt=F("attempt") + 1,
        worker=worker,
        process_id=None,
        leased_until=now() + lease(),
        started_at=Coalesce("started_at", Value(now())),
        **kind.afresh,
    ):
        return None
    job = kind.rows.select_related(*kind.related).get(pk=job.pk)
    again = "" if job.attempt == 1 else f" (attempt {job.attempt})"
    kind.on_event(job, Event("taken", f"Taken by {worker}{again}."))
    return job


def _is_another_held(kind: Kind[J], job: J) -> bool:
    """Whether a worker has another job of this lane and workspace. Locks the workspace, otherwise two would both find none."""
    Workspace.objects.select_for_update(no_key=True).get(pk=job.workspace_id)
    held = (each.rows.in_phase(*HELD) for each in _of_lane(kind.lane))
    others = (rows.filter(workspace=job.workspace_id, leased_until__gte=now()).exclude(pk=job.pk) for rows in held)
    return any(rows.exists() for rows in others)


def _of_lane(lane: str) -> list[Kind[Any]]:
    return [each for each in kinds() if each.lane == lane]


def _hand_on(job: Job) -> None:
    """Once the transaction commits, notify the workers of the workspace's next job of the lane."""
    kind = kind_of_job(job)
    if kind.lane:
        transaction.on_commit(lambda: _queue_next(kind.lane, job.workspace_id), robust=True)


def _queue_next(lane: str, workspace_id: UUID) -> None:
    waiting = [each.rows.waiting().filter(workspace=workspace_id) for each in _of_lane(lane)]
    first = [job for rows in waiting if (job := rows.order_by("queued_at").first())]
    if first:
        queue(min(first, key=lambda job: job.queued_at))


def write(job: Job, **changes: Any) -> None:
    """Update columns of the job. Raises Superseded."""
    if not kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk).update(**changes):
        raise Superseded(job)


def renew(job: Job) -> Phase:
    """Renew the lease, and refresh the phase, since a cancellation may have been requested. Raises Superseded."""
    write(job, leased_until=now() + lease())
    state = kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk).values_list("state", flat=True).first()
    if state is None:
        raise Superseded(job)
    return job.PHASES[state]


@contextmanager
def kept(job: Job, progress: Callable[[], Mapping[str, Any]] = dict) -> Iterator[None]:
    """Renew the lease in the background, for work without frequent writes. Raises Superseded if it's already lost.

    progress: columns to write with each renewal, for work within one transaction, whose own writes nobody sees.
    """
    over = Flag()

    def renew_until_over() -> None:
        try:
            with suppress(Superseded):  # the next write also detects it
                while not over.wait(lease().total_seconds() / 4):
                    write(job, leased_until=now() + lease(), **progress())
        finally:
            connection.close()  # this thread's own connection

    write(job, leased_until=now() + lease())
    renewing = Thread(target=renew_until_over, name="renews-lease", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()


def get_on(job: Job, **changes: Any) -> None:
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
    if kind.can_stop_slowly and held.in_phase(Phase.STOPPING).update(**_ended(kind, Phase.CANCELLED)):
        kind.on_event(job, Event("cancelled", "It stopped when asked to."))
        return
    if not held.update(**_waiting(kind)):
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
    if kind.can_stop_slowly and lost.in_phase(Phase.STOPPING).update(**_ended(kind, Phase.CANCELLED)):
        job.refresh_from_db()
        text = f"{reason} while it was being cancelled, so it counts as cancelled."
        kind.on_event(job, Event("cancelled", text))
        return True
    if losses >= job.MOST_LOSSES:
        failure = failure or _given_up(job, losses)
        ended = _ended(kind, Phase.FAILED)
        if not lost.update(losses=losses, loss=reason, failure=failure.as_json(), **ended):
            return False
        job.refresh_from_db()
        kind.on_event(job, Event("failed", failure.message))
        _announce(job)
        _hand_on(job)
        return True
    if not lost.update(losses=losses, loss=reason, **_waiting(kind)):
        return False
    job.refresh_from_db()
    text = f"{reason}. Queued again: the next attempt continues from {job.resumes_from}."
    kind.on_event(job, Event("lost", text))
    queue(job)
    return True


def _given_up(job: Job, losses: int) -> Failure:
    kind = kind_of_job(job)
    return Failure(
        category="lost",
        message=f"{losses} workers in a row stopped answering while they had this {kind.noun}; it isn't retried automatically.",
        advice=job.advice_when_lost,
    )


@transaction.atomic
def _end(job: Job, event: Event, phase: Phase, changes: dict[str, Any]) -> None:
    kind = kind_of_job(job)
    write(job, **{**_ended(kind, phase), **changes})
    job.refresh_from_db()
    kind.on_event(job, event)
    _announce(job)
    _hand_on(job)


def _announce(job: Job) -> None:
    """Announce its end to webhooks, if its kind has such an event."""
    kind = kind_of_job(job)
    event = kind.announced.get(job.phase)
    if event is not None:
        facts = {"id": str(job.pk), **kind.facts(job)}
        announce(event, workspace_id=job.workspace_id, name=kind.title(job), page=kind.url(job), **facts)


def _ended(kind: Kind[Any], phase: Phase) -> dict[str, Any]:
    return {"state": kind.state(phase), "finished_at": now(), "leased_until": None, "process_id": None}


def _waiting(kind: Kind[Any]) -> dict[str, Any]:
    return {"state": kind.state(Phase.WAITING), "queued_at": now(), "worker": "", "process_id": None}


@transaction.atomic
def cancel(job: J, *, by: User | None) -> J:
    """Cancel a job: immediately if no worker has it or its kind needs no graceful stop, otherwise once its worker has saved its state.

    Raises NotActive if it's over or already being cancelled, and NotSteerable.
    """
    kind = kind_of_job(job)
    if not kind.is_cancellable:
        raise NotSteerable(job)
    mine = kind.rows.filter(pk=job.pk)
    at_once = (Phase.WAITING,) if kind.can_stop_slowly else (Phase.WAITING, Phase.RUNNING)
    if mine.waiting().update(**_ended(kind, Phase.CANCELLED)):
        event = Event("cancelling", f"Cancelled by {by} before it began.")
    elif mine.in_phase(*at_once).update(**_ended(kind, Phase.CANCELLED)):
        event = Event("cancelling", f"Cancelled by {by}.")
        _hand_on(job)
    elif kind.can_stop_slowly and mine.in_phase(Phase.RUNNING).update(state=kind.state(Phase.STOPPING)):
        event = Event("cancelling", f"{by} asked it to stop.")
    else:
        job.refresh_from_db()
        raise NotActive(job)
    return _answered(job, by, "cancelled", event)


@transaction.atomic
def resume(job: J, *, by: User | None) -> J:
    """Requeue a cancelled or failed job; it continues where it stopped. Raises NotResumable, NotSteerable."""
    kind = kind_of_job(job)
    if not kind.is_resumable:
        raise NotSteerable(job)
    resumed = kind.rows.in_phase(*kind.resumable).filter(pk=job.pk)
    if not resumed.update(failure={}, losses=0, loss="", finished_at=None, **_waiting(kind)):
        job.refresh_from_db()
        raise NotResumable(job)
    if changes := kind.before_resuming(job, by):
        kind.rows.filter(pk=job.pk).update(**changes)
    job = _answered(job, by, "resumed", Event("resumed", f"Resumed by {by}, from {job.resumes_from}."))
    queue(job)
    return job


def _answered(job: J, by: User | None, done: str, event: Event) -> J:
    kind = kind_of_job(job)
    job.refresh_from_db()
    kind.on_event(job, event)
    audit.record(workspace=job.workspace, actor=by, action=f"{done} {kind.noun}", subject=kind.title(job), about=job)
    return job


def recover_all() -> None:
    """Recover jobs of every kind; an error in one kind doesn't affect the others."""
    for kind in kinds():
        try:
            recover(kind)
        except Exception:
            log.exception("%s could not be recovered; it is tried again in seconds", kind.name)


def recover(kind: Kind[J]) -> list[J]:
    """Requeue orphaned jobs, and resend messages for jobs that wait too long. Returns the lost ones.

    Conditional on the lease that was seen expired, so a worker that renews concurrently keeps its job.
    """
    orphans = kind.rows.orphaned().order_by("leased_until")[:AT_A_TIME]
    lost = [
        job for job in orphans if _lose(job, kind.rows.orphaned().filter(pk=job.pk, attempt=job.attempt), _silent(job))
    ]
    for job in kind.rows.overlooked()[:AT_A_TIME]:
        queue(job)
    return lost


def _silent(job: Job) -> str:
    return f"The worker {job.worker} stopped answering"


def _is_gone(worker: str) -> bool:
    """Whether a worker on this machine has certainly died; others are trusted until their lease expires."""
    host, _, process_id = worker.rpartition(":")
    return host == socket.gethostname() and process_id.isdigit() and not psutil.pid_exists(int(process_id))
