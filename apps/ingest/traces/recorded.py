"""Traces whose calls are in one record, grouped by a trace id on each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apps.ingest.records import BadRow, TrajectoryRecord, read_each
from apps.ingest.traces.threads import Span

Call = dict[str, Any]


def read_by_trace(
    calls: Iterable[Call],
    trace_of: Callable[[Call], str],
    span_of: Callable[[Call], Span],
    trajectories_in: Callable[[str, list[Call], list[Span]], Iterable[TrajectoryRecord]],
    *,
    expected: str,
) -> Iterator[TrajectoryRecord]:
    """The trajectories of each trace with a model call whose messages were recorded. Raises BadRow."""
    traces: dict[str, list[Call]] = {}
    for call in calls:
        traces.setdefault(trace_of(call), []).append(call)
    spans = {trace: [span_of(call) for call in of_trace] for trace, of_trace in traces.items()}
    with_chat = [trace for trace in traces if any(_holds_chat(span) for span in spans[trace])]
    if not with_chat:
        count = sum(map(len, traces.values()))
        raise BadRow(f"None of the {count:,} records is a model call with messages.", expected)
    # A trace's calls are kept as its original.
    parts = [(f"Trace {trace}", traces[trace]) for trace in with_chat]
    yield from read_each(
        parts, lambda of_trace: trajectories_in(trace_of(of_trace[0]), of_trace, spans[trace_of(of_trace[0])])
    )


def _holds_chat(span: Span) -> bool:
    return span.kind == "model" and (span.given is not None or span.answer is not None)
