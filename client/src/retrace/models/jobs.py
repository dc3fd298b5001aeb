"""Background jobs of every kind."""

from __future__ import annotations

from datetime import datetime

from retrace.models.answer import Answer


class Headway(Answer):
    """Progress of a job; a total of 0 means unknown."""

    done: int
    total: int
    unit: str


class Job(Answer):
    """A background job of any kind. Its result is at its own address."""

    id: str
    kind: str  # training_runs, rollouts, imports, …
    title: str
    phase: str
    state: str  # The phase as named by its kind.
    worker_queue: str  # The workers that can run it.
    worker: str  # host:process of the worker running it.
    attempt: int
    losses: int  # Consecutive attempts lost without progress.
    loss: str  # Why the last attempt was lost.
    headway: Headway | None
    error: str  # Why it failed, and what to do.
    page: str  # The path of its page.
    queued_at: datetime  # When it was last enqueued.
    started_at: datetime | None
    finished_at: datetime | None
