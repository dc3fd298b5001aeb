"""The worker's side of a child job: prepare the folder, start the child, relay its events, end it when asked, record how it
ended.

What differs between kinds of jobs is in their `ChildJob`; everything else is here.
"""

import errno
import logging
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import RawValue
from typing import Any, Literal

from celery.signals import worker_shutting_down
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, close_old_connections

from apps.jobs import lifecycle
from apps.jobs.models import J, Kind, Superseded, kind_of_job
from apps.training.folders import last_lines
from contract.events import LAST_KINDS, Event, EventReader, Finished, StampedEvent, Started
from trainer.failures import RunFailure
from workers.bridge.child_job import ChildJob
from workers.bridge.outcomes import ChildEnd, Outcome, disk_full, oom_kills, outcome_of
from workers.bridge.process import FolderLocked, TrainerProcess, locked

# The signal is sent in the worker's main process while the tasks run in processes that it forked, so this lives in shared
# memory. It needs no lock: it changes once, from 0 to 1.
_shutting_down = RawValue("b", 0)


@worker_shutting_down.connect
def _note_shutdown(**_: Any) -> None:
    _shutting_down.value = 1


def is_shutting_down() -> bool:
    """Whether to hand work back instead of continuing."""
    return bool(_shutting_down.value)


logger = logging.getLogger(__name__)

TICK_SECONDS = 0.25
RENEWAL_SECONDS = 1.0
"""Seconds between checks for cancellation; each also renews the lease."""
STOP_TIMEOUT_SECONDS = 120.0
"""Seconds a child has to save a checkpoint after being asked to stop."""
SILENCE_SECONDS = 180.0
"""A child without any event for this long, including heartbeats (every 10 s), is considered hung."""
MIN_FREE_BYTES = 64 * 1024
"""With less free space, a run can't even record why it ended."""


def run_job(kind: Kind[J], job_id: str, make_child_job: Callable[[J], ChildJob[J]]) -> None:
    """Do a waiting job. Idempotent: a second delivery finds nothing to claim."""
    job = lifecycle.claim(kind, job_id)
    if job is not None:
        run_claimed(job, make_child_job)


def run_claimed(claimed: J, make_child_job: Callable[[J], ChildJob[J]]) -> None:
    """Do a job. If only its child dies, such as by an OOM kill, this worker retries immediately.

    The job engine limits consecutive losses without progress.
    """
    job: J | None = claimed
    while job is not None:
        child_job = make_child_job(job)
        supervise(child_job)
        if not child_job.was_lost or is_shutting_down():
            return
        job = lifecycle.claim(kind_of_job(job), job.pk)


def supervise(job: ChildJob[Any]) -> None:
    """Do the job from claim to end, recording it in the database."""
    try:
        _supervise(job)
    except Superseded:
        logger.warning(
            "%s: another worker has it now; the child is stopped and nothing more is written", job.folder.path
        )


def _supervise(job: ChildJob[Any]) -> None:
    try:
        with locked(job.folder, timeout=settings.WORKER_LEASE_SECONDS) as lock:
            outcome, released = _attempt(job, lock)
            return _record_outcome(job, outcome, released=released)
    except FolderLocked:
        outcome = Outcome(
            "lost",
            "lost",
            "A process of an earlier attempt still works in the run's folder.",
            "Look for it on the worker's machine and end it, then resume.",
        )
    except (Superseded, OperationalError, InterfaceError):
        raise
    except Exception as error:  # the folder can't be created, or the result can't be stored
        outcome = _unexpected_failure(job, error)
    _record_outcome(job, outcome)


def _attempt(job: ChildJob[Any], lock: int) -> tuple[Outcome, bool]:
    monitor = _ChildMonitor(job)
    try:
        if report := monitor.catch_up():
            return Outcome("finished", report=report), False
        with lifecycle.lease_kept(job.job):
            job.prepare()
        with TrainerProcess(job.folder, lock=lock, niceness=job.niceness) as process:
            job.record_start(process.pid)
            return monitor.run_to_end(process)
    except RunFailure as failure:
        return Outcome("failed", failure.category, failure.message, failure.advice), False
    except (Superseded, OperationalError, InterfaceError):
        raise  # if the database is down, the lease expires and the job continues later
    except Exception as error:
        return _unexpected_failure(job, error), False


def _unexpected_failure(job: ChildJob[Any], error: Exception) -> Outcome:
    """An unexpected error as a failure. Call it in the except block."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(str(error))
    logger.exception("%s: the worker failed", job.folder.path)
    advice = (
        "This is a fault of the worker, not of your settings. Resume the run; if it fails again, report the traceback."
    )
    return Outcome("failed", "crash", f"The worker failed: {error}", advice, traceback.format_exc())


def _record_outcome(job: ChildJob[Any], outcome: Outcome, *, released: bool = False) -> None:
    """Record the end, retrying while the lease lasts if the database is down. On a name collision, retry with the next name."""
    deadline = time.monotonic() + settings.WORKER_LEASE_SECONDS
    while True:
        try:
            return job.record_outcome(outcome, released=released)
        except (OperationalError, InterfaceError, IntegrityError):
            if time.monotonic() > deadline:
                raise
            close_old_connections()
            time.sleep(TICK_SECONDS)


class _ChildMonitor:
    """The loop around one child."""

    def __init__(self, job: ChildJob[Any]) -> None:
        self.job = job
        self.reader = EventReader(job.folder.events, offset=job.events_offset)
        self.last_event: Event | None = None
        self.last_event_at = self.lease_renewed_at = time.monotonic()
        self.next_renewal = 0.0
        self.stop_requested_at: float | None = None
        self.released = False
        self.kill_reason: Literal["", "stop_timeout", "silence_timeout"] = ""

    def catch_up(self) -> dict[str, Any] | None:
        """Store events that an earlier attempt wrote after its worker died; returns the report if that attempt finished."""
        while not self._relay():
            time.sleep(TICK_SECONDS)
        last, self.last_event = self.last_event, None
        return last.report if isinstance(last, Finished) else None

    def run_to_end(self, process: TrainerProcess) -> tuple[Outcome, bool]:
        """Relay events and renew the lease until the child ends; returns its outcome, and whether it only stopped for this worker."""
        kills_before = oom_kills()
        self.last_event_at = time.monotonic()
        while (status := process.wait(TICK_SECONDS)) is None:
            self._relay()
            self._serve_requests()
            self._renew_lease(process)
            self._check_timeouts(process)
        # Checked now: a database on the same disk will only answer once there is space again.
        disk_is_full = self.job.folder.free_bytes() < MIN_FREE_BYTES
        while not self._relay():
            time.sleep(TICK_SECONDS)
        end = ChildEnd(
            status=status,
            last_event=self.last_event,
            log=last_lines(self.job.folder),
            oom_kills=oom_kills() - kills_before,
            disk_is_full=disk_is_full,
            stop_requested=self.stop_requested_at is not None,
            kill_reason=self.kill_reason,
        )
        return outcome_of(end), self.released

    def _relay(self) -> bool:
        """Relay new events; False if the database is down, in which case they're read again later."""
        offset = self.reader.offset
        events = self._new_events()
        if not events:
            return True
        self.last_event_at = time.monotonic()
        try:
            self.job.handle_events(events, self.reader.offset)
        except (OperationalError, InterfaceError) as error:
            self.reader.offset = offset
            self._database_unavailable(error)
            return False
        self.lease_renewed_at = time.monotonic()
        for stamped in events:
            if stamped.event.kind in LAST_KINDS or stamped.event.kind == Started.kind:
                self.last_event = None if stamped.event.kind == Started.kind else stamped.event
        return True

    def _new_events(self) -> list[StampedEvent]:
        events = []
        try:
            for stamped in self.reader.new_events():
                events.append(stamped)  # one by one, so that events before a bad line aren't lost
        except ValueError as error:
            logger.warning("%s: left out a line that isn't an event: %s", self.job.folder.events, error)
        return events

    def _serve_requests(self) -> None:
        try:
            self.job.serve_requests()
        except (OperationalError, InterfaceError) as error:
            self._database_unavailable(error)

    def _renew_lease(self, process: TrainerProcess) -> None:
        if time.monotonic() < self.next_renewal:
            return
        self.next_renewal = time.monotonic() + min(RENEWAL_SECONDS, settings.WORKER_LEASE_SECONDS / 5)
        try:
            stop_requested = self.job.renew_lease()
            self.lease_renewed_at = time.monotonic()
            must_stop = stop_requested or is_shutting_down() or self.job.should_yield()
        except (OperationalError, InterfaceError) as error:
            return self._database_unavailable(error)
        if self.stop_requested_at is None and must_stop:
            self.released = not stop_requested
            self.stop_requested_at = time.monotonic()
            process.terminate()

    def _check_timeouts(self, process: TrainerProcess) -> None:
        now = time.monotonic()
        if self.stop_requested_at is not None and now - self.stop_requested_at > STOP_TIMEOUT_SECONDS:
            self.kill_reason = "stop_timeout"
        elif now - self.last_event_at > SILENCE_SECONDS:
            self.kill_reason = "silence_timeout"
        else:
            return
        process.kill()

    def _database_unavailable(self, error: Exception) -> None:
        """Continue while the lease lasts; after that, another worker may have the run, so this one must stop."""
        logger.warning("%s: the database does not answer: %s", self.job.folder.path, error)
        with suppress(Exception):
            close_old_connections()
        if time.monotonic() - self.lease_renewed_at > settings.WORKER_LEASE_SECONDS:
            raise Superseded from error
