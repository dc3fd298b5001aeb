"""Traces that instrumented agents sent."""

from __future__ import annotations

from datetime import datetime

from retrace.models.answer import Answer


class TelemetryTrace(Answer):
    """A trace of OpenTelemetry that an instrumented agent sent."""

    id: str
    trace_id: str  # In hexadecimal.
    name: str  # Of its root span; until that comes, of its first.
    service: str
    state: str  # arriving, stored, passed_over (no model call), or refused.
    span_count: int
    model_calls: int
    size: int  # Bytes of its spans as JSON.
    has_root: bool  # Its root span has ended.
    problem: str  # Why it is no trajectory, or why a trajectory stays as it was.
    trajectories: list[str]  # Those that it became: one for each chat.
    created_at: datetime
    changed_at: datetime  # When the last new span came.
    due_at: datetime | None  # When it becomes trajectories unless more comes.
