"""Sessions of agents that live elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.models.answer import Answer


class Session(Answer):
    """One episode of an agent that lives elsewhere."""

    id: str
    url: str  # Where to ask again.
    state: str
    policy: str | None
    policy_name: (
        str  # Who acts: a policy, or the weights of a training run at a step. Of a split its name while it's open.
    )
    split: str | None  # The traffic split that led here.
    drawn: str | None  # The policy of the split's arm that was drawn, once the session has ended.
    failover: str  # Why the champion answered in place of the policy that was drawn.
    task: Any
    group: str  # Sessions of one task that are compared.
    attempt: int | None  # Which of its group.
    agent: str  # What runs it.
    name: str  # What the agent called it in X-Session-Id, where an API token opened it.
    is_guessed: bool  # Its calls were taken together by their trace; the agent named no session.
    metadata: Any
    max_calls: int | None
    max_tokens: int | None  # Tokens read and written, over all calls.
    idle_seconds: int  # Without a call for so long, the session is abandoned.
    expires_at: datetime  # When it is abandoned unless something happens.
    created_at: datetime
    ended_at: datetime | None
    success: bool | None
    reward: float | None
    rewards: Any  # Named rewards of the whole session.
    calls: int
    cost: (
        dict[str, Any] | None
    )  # dollars (null: unknown), estimated_calls, unknown_calls. None of an open session of a split.
    trajectory: str | None
    problem: str  # Why it is no trajectory, where it could not become one.


class OpenedSession(Session):
    """A session with its key, which is shown this once."""

    base_url: str  # For the agent's library.
    api_key: str  # For the agent's library. It opens this session, and nothing else.


class SessionEvent(Answer):
    """What was noted of a session."""

    key: str
    type: str
    name: str
    value: Any
    call: str | None
    created_at: datetime


class Trace(Answer):
    """What a session has come to so far."""

    trajectory: dict[str, Any]  # Its longest path, in Retrace's own import format.
    counts: dict[str, int]  # answered, failed, retried, seams, untrainable, redacted, tokens.
    cost: (
        dict[str, Any] | None
    )  # dollars (null: unknown), estimated_calls, unknown_calls. None of a split's open session.
    events: list[SessionEvent]


class NewTask(TypedDict, total=False):
    """A task that needn't be known yet. Sessions with the same environment and key are attempts at one task."""

    key: str  # Left out: told by the instruction.
    instruction: str
    environment: str
    category: str
    difficulty: str
    held_out: bool  # Nothing is ever trained on it.


class NewSession(TypedDict, total=False):
    """A session to open."""

    policy: str  # Who answers: a served policy's id or name. Or give a split.
    split: str  # A traffic split's name: one of its arms answers, and nothing tells which.
    task: str | NewTask | Mapping[str, Any] | None  # A task's id, or a task. Left out: the first user message.
    group: str  # Sessions that are compared.
    attempt: int | None
    agent: str  # What runs it.
    metadata: Mapping[str, Any]  # Anything else to find it by.
    max_calls: int | None
    max_tokens: int | None  # Read and written, over all calls.
    idle_seconds: int  # Without a call or an event for so long, the session is abandoned.


class NewEvent(TypedDict, total=False):
    """Something to note of a session."""

    key: Required[str]  # Of your choice; the same key again is the same event.
    type: Required[Literal["reward", "custom"]]
    name: str
    value: Any  # A number for a reward.
    call: str | None  # The call that it's about.


class Abandon(TypedDict, total=False):
    """Why nobody can tell how a session went."""

    problem: str


class Finish(TypedDict, total=False):
    """How a session went."""

    success: bool | None
    reward: float | None  # Left out: the sum of the session's reward events.
    rewards: Mapping[str, float]  # Named rewards beside it.
    metadata: Mapping[str, Any]  # Added to the session's.
