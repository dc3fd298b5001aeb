"""A job run by a child process, as its supervisor sees it."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic

from apps.common.live import best_effort
from apps.jobs import lifecycle
from apps.jobs.models import Failure, J, Phase
from apps.training.folders import folder_of, last_lines
from contract.events import StampedEvent
from workers.bridge.outcomes import Outcome


class ChildJob(Generic[J]):
    """One attempt at a job that this worker has claimed. Kinds differ in what they prepare, handle, and store."""

    refresh_seconds = 1.0
    events_offset = 0
    """Bytes of the child's events already stored. If 0, events of earlier attempts only repeat what the output holds."""

    niceness = 0
    """The child's nice value."""
    release_reason = "Its worker is shutting down; the next one continues from here."

    def __init__(self, job: J) -> None:
        self.job = job
        self.folder = folder_of(job.pk)
        self.was_lost = False
        """Whether this attempt was lost although its worker is alive."""
        self._refreshed_at = 0.0

    def prepare(self) -> None:
        """Fill the folder. Raises RunFailure if the work can't be done, OSError on disk errors."""
        raise NotImplementedError

    def handle_events(self, events: Sequence[StampedEvent], offset: int) -> None:
        """Store the child's events. Raises Superseded."""

    def store_results(self, report: dict[str, Any]) -> None:
        """Store a finished child's results, and mark the job done. Raises Superseded."""
        raise NotImplementedError

    def serve_requests(self) -> None:
        """Serve the child's requests. Called often, so it must be fast when there is nothing to do. Raises OSError."""

    def update_pages(self) -> None:
        """Update live pages that show the job."""

    def record_start(self, process_id: int) -> None:
        """Record the child's process id. Raises Superseded."""
        lifecycle.write(self.job, process_id=process_id)

    def renew_lease(self) -> bool:
        """Renew the lease; returns True if a stop was requested. Raises Superseded."""
        return lifecycle.renew(self.job) == Phase.STOPPING

    def should_yield(self) -> bool:
        """Whether to hand the job back now because a more urgent job is waiting. Checked after each renewal."""
        return False

    def record_outcome(self, outcome: Outcome, *, released: bool) -> None:
        """Store how it ended; `released` if it only stopped to free this worker. Raises Superseded."""
        match outcome.kind:
            case "finished":
                self.store_results(outcome.report)
            case "cancelled" if released:
                lifecycle.release(self.job, self.release_reason)
            case "cancelled":
                self.record_stop(outcome)
            case "lost":
                self._lose(outcome)
            case "failed":
                lifecycle.fail(self.job, self.failure(outcome))
        self.refresh_pages()

    def record_stop(self, outcome: Outcome) -> None:
        """The child stopped cleanly, on request or by itself."""
        lifecycle.stop(self.job, outcome.message)

    def failure(self, outcome: Outcome) -> Failure:
        return Failure(
            category=outcome.category,
            message=outcome.message,
            advice=outcome.advice,
            details=outcome.details,
            log=last_lines(self.folder),
            command=self.folder.command_line,
        )

    def _lose(self, outcome: Outcome) -> None:
        times = self.job.losses + 1
        history = f"It was started {times} times in a row and got no further than {self.job.resumes_from}."
        failure = replace(self.failure(outcome), message=f"{outcome.message} {history}")
        lifecycle.lose(self.job, outcome.message, failure=failure)
        self.was_lost = True
        continuation = (
            f"It continues from {self.job.resumes_from}." if self.job.is_active else "It isn't retried automatically."
        )
        with suppress(OSError), self.folder.log.open("a", encoding="utf-8") as log:
            log.write(f"Retrace: {outcome.message} {continuation}\n")

    def refresh_pages(self) -> None:
        self._refreshed_at = time.monotonic()
        with best_effort(self.job.pk):
            self.update_pages()

    def refresh_pages_if_due(self) -> None:
        if time.monotonic() - self._refreshed_at > self.refresh_seconds:
            self.refresh_pages()
