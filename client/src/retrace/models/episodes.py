"""Episodes of training runs and of rollouts, which runners play."""

from __future__ import annotations

from typing import Any, Required, TypedDict

from retrace.models.answer import Answer


class Episode(Answer):
    """An attempt at a task, by the weights that a training run has now, or by the policy of a batch of rollouts. The agent's library takes `base_url` and `api_key`."""

    id: str
    run: str | None  # The training run.
    rollouts: str | None = None  # Or the batch of rollouts.
    run_name: str  # What people call either.
    moment: str  # Which weights of the training run act, such as "step 3".
    task: dict[str, Any]  # As in a trajectory: key, instruction, initial_state and more.
    attempt: int
    session: str  # To tell how it went, or to renew.
    base_url: str
    api_key: str  # It opens this session, and nothing else.
    lease_seconds: int  # Without a call or a renewal for so long, it is given to another runner.
    max_calls: int


class Lease(TypedDict, total=False):
    """Which episodes a runner can play."""

    runner: Required[str]  # What it's called where people look at the training run.
    environment: str  # Whose tasks. Left out: any.
    run: str | None  # Of this training run alone. Left out: of any.
    rollouts: str | None  # Of this batch of rollouts alone. Left out: of any.
