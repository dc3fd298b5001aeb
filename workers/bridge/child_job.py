"""A job that a child process does, as its supervisor sees it."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic

from apps.common.live import telling
from apps.jobs import lifecycle
from apps.jobs.models import Failure, J, Phase
from apps.training.folders import folder_of, last_lines
from contract.events import StampedEvent
from workers.bridge.outcomes import Outcome


class ChildJob(Generic[J]):
    """One attempt at a job that this worker has claimed. Kinds differ in what they prepare, absorb and keep."""

    show_every_seconds = 1.0
    events_offset = 0
    """Bytes of the child's events that are stored. Where it is 0, events of earlier attempts only repeat what the output holds."""

    niceness = 0
    """Of the child: the higher, the more it gives way to others on the processor."""
    handed_back_because = "Its worker is shutting down; the next one goes on from here."

    def __init__(self, job: J) -> None:
        self.job = job
        self.folder = folder_of(job.pk)
        self.was_lost = False
        """Whether this attempt was lost though its worker lives."""
        self._shown_at = 0.0

    def prepare(self) -> None:
        """Fill the folder. Raises RunFailure when the work cannot be done, OSError when the disk refuses."""
        raise NotImplementedError

    def absorb(self, events: Sequence[StampedEvent], offset: int) -> None:
        """Store what the child said. Raises Superseded."""

    def keep(self, report: dict[str, Any]) -> None:
        """Store what a finished child leaves behind, and that it is done. Raises Superseded."""
        raise NotImplementedError

    def attend(self) -> None:
        """Do for the child what it can't do itself. Called often, so it's quick where there is nothing to do. Raises OSError."""

    def tell(self) -> None:
        """Show the job to those who look at it."""

    def started(self, process_id: int) -> None:
        """Note which child does it. Raises Superseded."""
        lifecycle.write(self.job, process_id=process_id)

    def pulse(self) -> bool:
        """Renew the lease; True when somebody wants it to stop. Raises Superseded."""
        return lifecycle.renew(self.job) == Phase.STOPPING

    def gives_way(self) -> bool:
        """Whether to hand the job back now, because somebody waits for what the worker could do instead. Asked after each pulse."""
        return False

    def conclude(self, outcome: Outcome, *, handed_back: bool) -> None:
        """Store how it ended; `handed_back` when it stopped only because this worker has to do something else. Raises Superseded."""
        match outcome.kind:
            case "finished":
                self.keep(outcome.report)
            case "cancelled" if handed_back:
                lifecycle.release(self.job, self.handed_back_because)
            case "cancelled":
                self.stopped(outcome)
            case "lost":
                self._lose(outcome)
            case "failed":
                lifecycle.fail(self.job, self.failure(outcome))
        self.show()

    def stopped(self, outcome: Outcome) -> None:
        """The child stopped in good order, because it was asked to or of its own accord."""
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
        tried = f"It was started {times} times in a row and got no further than {self.job.resumes_from}."
        failure = replace(self.failure(outcome), message=f"{outcome.message} {tried}")
        lifecycle.lose(self.job, outcome.message, failure=failure)
        self.was_lost = True
        where = f"It goes on from {self.job.resumes_from}." if self.job.is_active else "It isn't tried again by itself."
        with suppress(OSError), self.folder.log.open("a", encoding="utf-8") as log:
            log.write(f"Retrace: {outcome.message} {where}\n")

    def show(self) -> None:
        self._shown_at = time.monotonic()
        with telling(self.job.pk):
            self.tell()

    def show_now_and_then(self) -> None:
        if time.monotonic() - self._shown_at > self.show_every_seconds:
            self.show()
