"""Episodes of training runs and rollouts, which runners play."""

from __future__ import annotations

from typing import Any, Required, TypedDict

from retrace.models.answer import Answer


class Episode(Answer):
    """An attempt at a task by the current weights of a training run, or by the policy of a batch of rollouts. Configure the agent's library with
    `base_url` and `api_key`."""

    id: str
    run: str | None  # The training run.
    rollouts: str | None = None  # Or the batch of rollouts.
    run_name: str  # Display name of the training run or the rollouts.
    moment: str  # Which weights of the training run act, such as "step 3".
    task: dict[str, Any]  # As in a trajectory: key, instruction, initial_state, and more.
    attempt: int
    session: str  # Id for reporting the outcome, and for renewing the lease.
    base_url: str
    api_key: str  # Valid only for this session.
    lease_seconds: int  # Without a call or a renewal for this long, the episode is given to another runner.
    max_calls: int


class Lease(TypedDict, total=False):
    """Which episodes a runner can play."""

    runner: Required[str]  # Display name on the training run's page.
    environment: str  # Only tasks of this environment. Default: any.
    run: str | None  # Only episodes of this training run. Default: any.
    rollouts: str | None  # Only episodes of this batch of rollouts. Default: any.
