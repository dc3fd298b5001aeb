"""Trajectories as listed, their comments, and filters."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

from retrace.models.answer import Answer


class TaskInList(Answer):
    """The task that a trajectory attempts."""

    id: str
    key: str
    environment: str
    category: str
    difficulty: str
    held_out: bool  # Kept for evaluation; never in a training split.


class Trajectory(Answer):
    """A trajectory without its steps."""

    id: str
    external_id: str
    task: TaskInList
    policy: str | None
    source: str  # The import format, or `rollout`.
    reward: float | None
    success: bool | None
    termination: str
    step_count: int
    error_count: int
    token_count: int | None  # Tokens that the policy generated.
    seconds: float | None
    tags: list[str]
    parent: str | None
    branch_step: int | None  # The first step that differs from the parent.
    import_batch: str | None
    rollout_batch: str | None
    created_at: datetime


class Comment(Answer):
    """A comment on a trajectory."""

    id: str
    trajectory: str
    by: str
    text: str
    created_at: datetime


class Mention(Answer):
    """A comment that names the token's owner."""

    id: int
    comment: Comment
    read_at: datetime | None


class Say(TypedDict):
    """A comment. `@` before the name or e-mail address of a member mentions them."""

    text: str


class Filter(TypedDict, total=False):
    """Filters of the list of trajectories. All given ones must match."""

    q: str  # Words of the task, matched as prefixes; or an id, or an external id.
    task: str  # Its id.
    environment: str
    policy: str  # Its id, or `none` for unknown policies.
    outcome: Literal["success", "failure", "none"]
    errors: Literal["yes", "no"]  # Whether any step failed.
    min_steps: int
    max_steps: int
    tag: str
    tool: str  # The name of a tool that a step called.
    source: str  # The import format, or `rollout`.
    batch: str  # The id of an import.
    rollouts: str  # The id of rollouts.
    annotator: str  # The id of an annotator who judged it.
