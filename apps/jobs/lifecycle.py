"""The life of a job, whatever its kind: queue, claim, renew, finish, fail, release, lose, cancel, resume, recover.

Each is one transaction and one conditional update. What a worker writes is conditional on its attempt (`write`), so it raises Superseded
where the job is somebody else's by now, or over. All of it may be told twice.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
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
from apps.accounts.models import User
from apps.common.broker import enqueue
from apps.jobs.models import (
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
    """Question of a job cannot be done in the state that it is in."""

    able = ""

    def __init__(self, job: Job) -> None:
        state = job.get_state_display().lower()  # type: ignore[attr-defined]  # every kind's state has choices
        super().__init__(f"This {kind_of_job(job).noun} is {state}; {self.able}.")


class NotActive(JobRefusal):
    """There is nothing to cancel: the job has ended, or is being cancelled already."""

    able = "only one that waits or runs can be cancelled"


class NotResumable(JobRefusal):
    """Only a job that was cancelled or failed can be taken up again."""

    able = "only a cancelled or failed one can be resumed"


class NotSteerable(JobRefusal):
    """Jobs of this kind run to their end."""

    able = "jobs of its kind run to their end and are not taken up again"


def this_worker() -> str:
    """How this process signs the jobs that it has: the machine and the process."""
    return f"{socket.gethostname()}:{os.getpid()}"


# Waiting -------------------------------------------------------------------------------------------------------------


def queue(job: Job) -> None:
    """Tell the workers about a job that waits, and remember when to tell them again should nobody answer."""
    kind = kind_of_job(job)
    kind.rows.waiting().filter(pk=job.pk).update(leased_until=now() + REMIND_AFTER)
    enqueue(kind.task(job), str(job.pk))


@transaction.atomic
def claim(kind: Kind[J], job_id: UUID | str, *, worker: str = "") -> J | None:
    """Take a job that waits, for this process; None when it is over, in good hands, or gone.

    One that is held by a worker whose lease has run out, or whose process on this machine is gone, is taken from it first.
    """
    worker = worker or this_worker()
    job = kind.rows.filter(pk=job_id).first()
    if job is None:
        return None
    held = kind.rows.held(job.attempt).filter(pk=job.pk)
    _lose(job, held if _is_gone(job.worker) else held.filter(leased_until__lt=now()), _silent(job))
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


# What a worker writes about the job that it holds --------------------------------------------------------------------


def write(job: Job, **changes: Any) -> None:
    """Change columns of the job. Raises Superseded."""
    if not kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk).update(**changes):
        raise Superseded(job)


def renew(job: Job) -> Phase:
    """Keep the job for another lease, and learn its phase: somebody may want it cancelled. Raises Superseded."""
    write(job, leased_until=now() + lease())
    state = kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk).values_list("state", flat=True).first()
    if state is None:
        raise Superseded(job)
    return job.PHASES[state]


@contextmanager
def kept(job: Job) -> Iterator[None]:
    """Renew the lease all the time, for work that may say nothing for long. Raises Superseded where it is lost already."""
    over = Flag()

    def renew_until_over() -> None:
        try:
            with suppress(Superseded):  # the next write finds out too
                while not over.wait(lease().total_seconds() / 4):
                    write(job, leased_until=now() + lease())
        finally:
            connection.close()  # this thread's own

    write(job, leased_until=now() + lease())
    renewing = Thread(target=renew_until_over, name="renews-lease", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()


def get_on(job: Job, **changes: Any) -> None:
    """Store progress: the attempts that were lost before were not lost in a row. Raises Superseded."""
    write(job, leased_until=now() + lease(), losses=0, loss="", **changes)
    job.losses, job.loss = 0, ""


def finish(job: Job, **changes: Any) -> None:
    """It is done. Raises Superseded."""
    _end(job, Event("finished", ""), Phase.DONE, {"failure": {}, "losses": 0, "loss": "", **changes})


def fail(job: Job, failure: Failure, **changes: Any) -> None:
    """It cannot go on. Raises Superseded."""
    _end(job, Event("failed", failure.message), Phase.FAILED, {"failure": failure.as_json(), **changes})


def stop(job: Job, reason: str, **changes: Any) -> None:
    """It stopped because somebody cancelled it, or has gone as far as it may. Raises Superseded."""
    _end(job, Event("cancelled", reason), Phase.CANCELLED, changes)


@transaction.atomic
def release(job: Job, reason: str) -> None:
    """Put it back in the queue: its worker is going away in good order. Raises Superseded."""
    kind = kind_of_job(job)
    held = kind.rows.held(job.attempt).filter(pk=job.pk)
    # Somebody may have pressed Cancel while the worker came to its end: the next one must not go on.
    if kind.can_stop_slowly and held.in_phase(Phase.STOPPING).update(**_ended(kind, Phase.CANCELLED)):
        kind.on_event(job, Event("cancelled", "It stopped when asked to."))
        return
    if not held.update(**_waiting(kind)):
        raise Superseded(job)
    job.refresh_from_db()
    kind.on_event(job, Event("requeued", reason))
    queue(job)


def lose(job: Job, reason: str, *, failure: Failure | None = None) -> None:
    """Give up this attempt, though its worker lives: its child died, or fell silent. Raises Superseded.

    failure: what to say where it is the last one that is tried.
    """
    if not _lose(job, kind_of_job(job).rows.held(job.attempt).filter(pk=job.pk), reason, failure):
        raise Superseded(job)


@transaction.atomic
def _lose(job: J, lost: JobQuerySet[J], reason: str, failure: Failure | None = None) -> bool:
    """End the attempt: cancelled if that was wanted, failed after too many losses, else queued for another worker."""
    kind, losses = kind_of_job(job), job.losses + 1
    reason = reason.rstrip(".")
    # Decided in the statement itself: somebody may press Cancel at this very moment.
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
        return True
    if not lost.update(losses=losses, loss=reason, **_waiting(kind)):
        return False
    job.refresh_from_db()
    text = f"{reason}. Queued again: the next attempt goes on from {job.resumes_from}."
    kind.on_event(job, Event("lost", text))
    queue(job)
    return True


def _given_up(job: Job, losses: int) -> Failure:
    kind = kind_of_job(job)
    return Failure(
        category="lost",
        message=f"{losses} workers in a row stopped answering while they had this {kind.noun}; it isn't tried again by itself.",
        advice=job.advice_when_lost,
    )


@transaction.atomic
def _end(job: Job, event: Event, phase: Phase, changes: dict[str, Any]) -> None:
    kind = kind_of_job(job)
    write(job, **{**_ended(kind, phase), **changes})
    job.refresh_from_db()
    kind.on_event(job, event)
    _announce(job)


def _announce(job: Job) -> None:
    """Tell webhooks that it has ended, where they can be told of that."""
    kind = kind_of_job(job)
    event = kind.announced.get(job.phase)
    if event is not None:
        facts = {"id": str(job.pk), **kind.facts(job)}
        announce(event, workspace_id=job.workspace_id, name=kind.title(job), page=kind.url(job), **facts)


def _ended(kind: Kind[Any], phase: Phase) -> dict[str, Any]:
    return {"state": kind.state(phase), "finished_at": now(), "leased_until": None, "process_id": None}


def _waiting(kind: Kind[Any]) -> dict[str, Any]:
    return {"state": kind.state(Phase.WAITING), "queued_at": now(), "worker": "", "process_id": None}


# What people ask for -------------------------------------------------------------------------------------------------


@transaction.atomic
def cancel(job: J, *, by: User | None) -> J:
    """Ask for the end of a job: at once if no worker has it or its work needs no leave-taking, else as soon as its worker has saved it.

    Raises NotActive when it is over, or somebody else was faster, and NotSteerable.
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
    elif kind.can_stop_slowly and mine.in_phase(Phase.RUNNING).update(state=kind.state(Phase.STOPPING)):
        event = Event("cancelling", f"{by} asked it to stop.")
    else:
        job.refresh_from_db()
        raise NotActive(job)
    return _answered(job, by, "cancelled", event)


@transaction.atomic
def resume(job: J, *, by: User | None) -> J:
    """Queue a cancelled or failed job again; it goes on where it stopped. Raises NotResumable, NotSteerable."""
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


# What the clock asks for ---------------------------------------------------------------------------------------------


def recover_all() -> None:
    """Recover jobs of every kind; one kind that breaks does not keep the others from going on."""
    for kind in kinds():
        try:
            recover(kind)
        except Exception:
            log.exception("%s could not be recovered; it is tried again in seconds", kind.name)


def recover(kind: Kind[J]) -> list[J]:
    """Give orphaned jobs to other workers, and remind the workers of those that wait too long. Returns those that were lost.

    Conditional on the very lease that was seen expired: a worker that renews in this moment keeps its job.
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
    """Whether a worker of this machine is gone for certain; others are believed until their lease expires."""
    host, _, process_id = worker.rpartition(":")
    return host == socket.gethostname() and process_id.isdigit() and not psutil.pid_exists(int(process_id))
