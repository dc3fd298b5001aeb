"""Sessions of external agents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.models.answer import Answer


class Session(Answer):
    """One episode of an external agent."""

    id: str
    url: str  # URL for polling.
    state: str
    policy: str | None
    policy_name: (
        str  # What acts: a policy, or the weights of a training run at a step. For a split, its name while it's open.
    )
    split: str | None  # The traffic split that routed it.
    drawn: str | None  # The policy of the drawn arm, once the session has ended.
    failover: str  # Why the champion answered instead of the drawn policy.
    task: Any
    group: str  # Sessions of one task to compare.
    attempt: int | None  # Index in its group.
    agent: str  # What runs the agent.
    name: str  # The agent's X-Session-Id, for sessions opened by an API token's call.
    is_guessed: bool  # Its calls were grouped by trace; the agent named no session.
    metadata: Any
    max_calls: int | None
    max_tokens: int | None  # Limit on prompt and completion tokens over all calls.
    idle_seconds: int  # Without a call for this long, the session is abandoned.
    expires_at: datetime  # When it's abandoned if nothing happens.
    created_at: datetime
    ended_at: datetime | None
    success: bool | None
    reward: float | None
    rewards: Any  # Named rewards of the whole session.
    calls: int
    # dollars (None: unknown), estimated_calls, unknown_calls. None for a split's open session.
    cost: dict[str, Any] | None
    trajectory: str | None
    problem: str  # Why it couldn't become a trajectory.


class OpenedSession(Session):
    """A session with its key, which is shown only once."""

    base_url: str  # For the agent's library.
    api_key: str  # For the agent's library. Valid only for this session.


class SessionEvent(Answer):
    """An event of a session."""

    key: str
    type: str
    name: str
    value: Any
    call: str | None
    created_at: datetime


class Trace(Answer):
    """A session's calls so far."""

    trajectory: dict[str, Any]  # Its longest path, in Retrace's own import format.
    counts: dict[str, int]  # answered, failed, retried, seams, bridged, untrainable, redacted, tokens.
    cost: dict[str, Any] | None  # dollars, estimated_calls, unknown_calls; None for a split's open session.
    events: list[SessionEvent]


class NewTask(TypedDict, total=False):
    """A task that may be new. Sessions with the same environment and key are attempts at one task."""

    key: str  # Default: derived from the instruction.
    instruction: str
    environment: str
    category: str
    difficulty: str
    held_out: bool  # Never trained on.


class NewSession(TypedDict, total=False):
    """A session to open."""

    policy: str  # A served policy's id or name. Alternatively, give a split.
    split: str  # A traffic split's name: one of its arms answers, without revealing which.
    task: str | NewTask | Mapping[str, Any] | None  # A task's id, or a task. Default: the first user message.
    group: str  # Sessions to compare.
    attempt: int | None
    agent: str  # What runs the agent.
    metadata: Mapping[str, Any]  # Any other data to find it by.
    max_calls: int | None
    max_tokens: int | None  # Read and written, over all calls.
    idle_seconds: int  # Without a call or an event for this long, the session is abandoned.


class NewEvent(TypedDict, total=False):
    """An event to record for a session."""

    key: Required[str]  # Your choice; events are deduplicated by key.
    type: Required[Literal["reward", "custom"]]
    name: str
    value: Any  # A number for a reward.
    call: str | None  # The call that it's about.


class Abandon(TypedDict, total=False):
    """Why the outcome of a session is unknown."""

    problem: str


class Finish(TypedDict, total=False):
    """The outcome of a session."""

    success: bool | None
    reward: float | None  # Default: the sum of the session's reward events.
    rewards: Mapping[str, float]  # Named rewards beside it.
    metadata: Mapping[str, Any]  # Added to the session's.
