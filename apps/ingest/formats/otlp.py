"""OpenTelemetry traces as the Collector writes them (OTLP as JSON): objects with `resourceSpans`, one per line or one per file.

A file's spans are first grouped by trace. Each chat of a trace is a trajectory; traces without model calls are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.fields import mapping, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from apps.ingest.traces.attributes import plain, span_of
from apps.ingest.traces.span_groups import group_by_trace, groups_in
from apps.ingest.traces.threads import Span, trajectories_of
from contract import jsontext

EXPECTED = "An object with `resourceSpans`, each with `scopeSpans`, and spans in which a model was called (`gen_ai.…`, `llm.…`)."
NANOSECONDS = 1e9
FAILED = (2, "STATUS_CODE_ERROR")


def _accepts(row: Json) -> bool:
    return type(mapping(row).get("resourceSpans")) is list


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    traces: dict[str, list[Span]] = {}
    services: dict[str, str] = {}
    for details, entry in groups_in(row):
        for span in entry:
            trace = text(span.get("traceId"))
            traces.setdefault(trace, []).append(_span(span))
            services[trace] = text(plain(details["resource"].get("attributes")).get("service.name"))
    with_calls = {trace: spans for trace, spans in traces.items() if any(span.kind == "model" for span in spans)}
    if not with_calls:
        raise BadRow(f"None of the {sum(map(len, traces.values()))} spans is a model call.", EXPECTED)
    for trace, spans in with_calls.items():
        service = {"service": services[trace]} if services[trace] else {}
        yield from trajectories_of(spans, trace=trace, details={"trace": {"id": trace, **service}})


def _span(entry: dict[str, Any]) -> Span:
    status = mapping(entry.get("status"))
    failed = status.get("code") in FAILED
    events = [
        (text(event.get("name")), plain(event.get("attributes"))) for event in map(mapping, entry.get("events") or ())
    ]
    return span_of(
        plain(entry.get("attributes")),
        events,
        id=text(entry.get("spanId")),
        parent=text(entry.get("parentSpanId")),
        name=text(entry.get("name")),
        start=_seconds(entry.get("startTimeUnixNano")) or 0.0,
        end=_seconds(entry.get("endTimeUnixNano")),
        error=(text(status.get("message")) or "The call failed.") if failed else None,
    )


def _seconds(nanoseconds: Json) -> float | None:
    written = str(nanoseconds)  # 64 bits: a number, or its text
    return int(written) / NANOSECONDS if written.isdecimal() else None


FORMAT = Format(
    name="otlp",
    title="OpenTelemetry trace (OTLP JSON)",
    shape="an object with `resourceSpans`, some of whose spans call a model",
    keys=("resourceSpans",),
    accepts=_accepts,
    read=_read,
    gather=group_by_trace,
)
