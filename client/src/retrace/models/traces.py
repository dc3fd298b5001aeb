"""Traces sent by instrumented agents."""

from __future__ import annotations

from datetime import datetime

from retrace.models.answer import Answer


class TelemetryTrace(Answer):
    """An OpenTelemetry trace sent by an instrumented agent."""

    id: str
    trace_id: str  # Hexadecimal.
    name: str  # Name of its root span; until that arrives, of its first span.
    service: str
    state: str  # arriving, stored, passed_over (no model call), or refused.
    span_count: int
    model_calls: int
    size: int  # Size of its spans as JSON, in bytes.
    has_root: bool  # Whether its root span has ended.
    problem: str  # Why it didn't become a trajectory, or why a trajectory wasn't updated.
    trajectories: list[str]  # The resulting trajectories: one per chat.
    created_at: datetime
    changed_at: datetime  # When the last new span arrived.
    due_at: datetime | None  # When it becomes trajectories if no more spans arrive.
