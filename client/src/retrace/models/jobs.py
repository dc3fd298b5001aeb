"""Background work of every kind."""

from __future__ import annotations

from datetime import datetime

from retrace.models.answer import Answer


class Headway(Answer):
    """How far a job is; a total of 0 is not known."""

    done: int
    total: int
    unit: str


class Job(Answer):
    """A piece of background work, whatever its kind. What it makes is at its own address."""

    id: str
    kind: str  # training_runs, rollouts, imports, …
    title: str
    phase: str
    state: str  # What its kind calls the phase.
    worker_queue: str  # Which workers take it.
    worker: str  # host:process of the one that has it.
    attempt: int
    losses: int  # Attempts lost in a row without progress.
    loss: str  # Why the last of them was lost.
    headway: Headway | None
    error: str  # Why it failed, and what to do.
    page: str  # The path of its page.
    queued_at: datetime  # Since when it waits, or last waited.
    started_at: datetime | None
    finished_at: datetime | None
