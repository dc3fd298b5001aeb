"""OpenTelemetry spans as its SDKs print them, as Arize Phoenix exports them, and in MLflow traces: one per line, in a list, in `spans`, or
as table rows.

They are grouped by trace; attributes are read in the same vocabularies as OTLP files. The outcome comes from MLflow's assessments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from apps.ingest.files.raw_records import as_one
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.columns import REWARD, SUCCESS
from apps.ingest.normalization.fields import first_of, flag, mapping, number, reward_of, seconds_of, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from apps.ingest.traces.attributes import span_of
from apps.ingest.traces.payloads import decoded
from apps.ingest.traces.recorded import read_by_trace
from apps.ingest.traces.threads import Span, trajectories_of
from contract import jsontext

SHAPE = "spans with `context` (`trace_id`, `span_id`) and `attributes`, one per line or in `spans`"
COLUMN = "attributes."
ENCODED = "mlflow."
"""Prefix of attributes whose values are JSON text."""
FAILED = ("ERROR", "STATUS_CODE_ERROR")
DURATION = re.compile(r"PT(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?")
LATEST = 1e11
"""Seconds since 1970 above which a timestamp is in milliseconds; above a million times that, in nanoseconds."""


def _is_span(entry: Json) -> bool:
    details = mapping(entry)
    has_context = "trace_id" in mapping(details.get("context")) or "context.trace_id" in details
    has_context = has_context or {"trace_id", "span_id"} <= details.keys()
    return has_context and ("attributes" in details or any(key.startswith(COLUMN) for key in details))


def _spans(row: Json) -> Iterator[dict[str, Any]]:
    for item in row if type(row) is list else [row]:
        details = mapping(item)
        if type(details.get("trace")) is str and "labels" in details:  # TRAIL's rows, which include human annotations
            details = mapping(decoded(details["trace"]))
        inside = first_of(details, "spans") or mapping(details.get("data")).get("spans")
        if _is_span(item):
            yield item
        elif type(inside) is list:
            yield from filter(_is_span, _in_trees(inside))


def _in_trees(entries: list[Json]) -> Iterator[Json]:
    """The spans, each before its children, with the SDKs' key names."""
    waiting = entries[::-1]
    while waiting:
        span = waiting.pop()
        if "span_attributes" in mapping(span):
            waiting += _listed(span.get("child_spans"))[::-1]
            begun, spent = seconds_of(span.get("timestamp")), DURATION.fullmatch(text(span.get("duration")))
            duration_between = (
                sum(float(part or 0) * unit for part, unit in zip(spent.groups(), (3600, 60, 1), strict=True))
                if spent
                else None
            )
            details = {key: span.get(key) for key in ("trace_id", "span_id", "parent_span_id", "status_message")}
            failed = "ERROR" if text(span.get("status_code")).upper() in FAILED else ""
            span = {
                **details,
                "name": span.get("span_name"),
                "attributes": span["span_attributes"],
                "status_code": failed,
                "start_time": begun,
                "end_time": None if begun is None or duration_between is None else begun + duration_between,
            }
        yield span


def _accepts(row: Json) -> bool:
    return type(row) in (dict, list) and next(_spans(row), None) is not None


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) not in (dict, list):
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    infos = [mapping(mapping(item).get("info")) for item in (row if type(row) is list else [row])]
    scores = {text(first_of(info, "trace_id", "request_id")): _scores(info) for info in infos}

    def trajectories_in(trace: str, entries: list[dict[str, Any]], spans: list[Span]) -> Iterator[TrajectoryRecord]:
        scores_of_trace = scores.get(trace) or {}
        for record in trajectories_of(
            spans,
            trace=trace,
            details={"trace": {"id": trace}, **({"scores": scores_of_trace} if scores_of_trace else {})},
        ):
            if record.whole is None:
                record.outcome.reward, record.outcome.success = (
                    reward_of(first_of(scores_of_trace, *REWARD)),
                    flag(first_of(scores_of_trace, *SUCCESS)),
                )
            yield record

    yield from read_by_trace(_spans(row), _trace_of, _span, trajectories_in, expected=f"{SHAPE}.")


def _scores(info: dict[str, Any]) -> dict[str, Json]:
    """MLflow's feedback by name, without what was overridden."""
    assessments = [
        assessment
        for assessment in map(mapping, _listed(info.get("assessments")))
        if assessment.get("valid") is not False
    ]
    feedback_by_name = {
        text(first_of(assessment, "assessment_name", "name")): mapping(assessment.get("feedback"))
        for assessment in assessments
    }
    return {name: feedback["value"] for name, feedback in feedback_by_name.items() if feedback.get("value") is not None}


def _trace_of(entry: dict[str, Any]) -> str:
    request = decoded(mapping(entry.get("attributes")).get("mlflow.traceRequestId"))
    return text(
        request
        or first_of(mapping(entry.get("context")), "trace_id")
        or first_of(entry, "context.trace_id", "trace_id")
    )


def _span(entry: dict[str, Any]) -> Span:
    attributes = _attributes(entry)
    status = mapping(entry.get("status"))
    failed = text(first_of(entry, "status_code") or first_of(status, "status_code", "code")) in FAILED
    events = [
        (text(event.get("name")), mapping(event.get("attributes")))
        for event in map(mapping, _listed(entry.get("events")))
    ]
    return span_of(
        attributes,
        events,
        id=text(first_of(mapping(entry.get("context")), "span_id") or first_of(entry, "context.span_id", "span_id")),
        parent=text(first_of(entry, "parent_id", "parent_span_id")),
        name=text(entry.get("name")),
        start=_moment(first_of(entry, "start_time", "start_time_unix_nano")) or 0.0,
        end=_moment(first_of(entry, "end_time", "end_time_unix_nano")),
        error=(
            text(first_of(entry, "status_message") or first_of(status, "description", "message")) or "The call failed."
        )
        if failed
        else None,
    )


def _attributes(entry: dict[str, Any]) -> dict[str, Json]:
    """Attributes in the SDKs' flat form with dotted names, flattening objects and lists that exports made of them."""
    flat = dict(_flat(mapping(entry.get("attributes")), ""))
    for name, value in entry.items():
        if name.startswith(COLUMN) and value is not None:
            flat |= dict(_flat({name.removeprefix(COLUMN): value}, ""))
    flat |= {name: decoded(value) for name, value in flat.items() if name.startswith(ENCODED)}
    if kind := text(entry.get("span_kind")):
        flat.setdefault("openinference.span.kind", kind)
    return flat


def _flat(value: Json, prefix: str, depth: int = 0) -> Iterator[tuple[str, Json]]:
    inside: Iterator[tuple[str, Json]] | None = None
    if type(value) is dict:
        inside = iter(value.items())
    elif type(value) is list and value and all(type(item) is dict for item in value):
        inside = ((str(index), item) for index, item in enumerate(value))
    if inside is None or depth > 12:
        yield prefix, value
        return
    for name, inner in inside:
        yield from _flat(inner, f"{prefix}.{name}" if prefix else name, depth + 1)


def _listed(entry: Json) -> list[Json]:
    return entry if type(entry) is list else []


def _moment(value: Json) -> float | None:
    """Seconds since 1970, from ISO 8601 or from a count of seconds, milliseconds, or nanoseconds."""
    timestamp = seconds_of(value) if type(value) is str else number(value)
    if timestamp is None or timestamp < LATEST:
        return timestamp
    return timestamp / 1e9 if timestamp > LATEST * 1e6 else timestamp / 1e3


FORMAT = Format(
    name="spans",
    title="OpenTelemetry spans (SDK, Phoenix, MLflow)",
    shape=SHAPE,
    keys=single_or_listed("context.trace_id", "trace_id span_id", "spans", "data.spans", "trace labels"),
    accepts=_accepts,
    read=_read,
    gather=as_one,
)
