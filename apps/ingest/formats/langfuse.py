"""Langfuse traces: an object with `trace` and its `observations`, or the trace itself with `observations`, as its REST API returns it.

Each chat of a trace is a trajectory. Scores named reward, success, or similar are the outcome; all scores are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from apps.ingest.formats import Format
from apps.ingest.normalization.columns import REWARD, SUCCESS
from apps.ingest.normalization.fields import (
    count,
    first_of,
    flag,
    mapping,
    optional_list,
    reward_of,
    seconds_of,
    text,
)
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from apps.ingest.traces.attributes import CALL_ID, NAME_OF_TOOL
from apps.ingest.traces.payloads import decoded, tools_offered
from apps.ingest.traces.threads import Span, trajectories_of
from contract import jsontext

EXPECTED = (
    "An object with `trace` and `observations`, each of these with `id`, `type`, `startTime`, `input` and `output`."
)
OF_TRACE = ("name", "sessionId", "release", "version", "environment", "timestamp")
KINDS: dict[str, Literal["model", "tool"]] = {"GENERATION": "model", "TOOL": "tool"}


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    trace = mapping(row.get("trace")) or row
    scores = [mapping(score) for score in optional_list(trace, "scores")]
    details: dict[str, Any] = {"trace": {key: trace[key] for key in OF_TRACE if trace.get(key)}}
    if scores:
        details["scores"] = [
            {key: score[key] for key in ("name", "value", "stringValue", "comment") if score.get(key) not in (None, "")}
            for score in scores
        ]
    spans = [_span(mapping(entry)) for entry in optional_list(row, "observations")]
    # The number of a category is its position in a list of categories.
    scores_by_name = {text(score.get("name")): first_of(score, "stringValue", "value") for score in scores}
    for record in trajectories_of(spans, trace=text(trace.get("id")), details=details, answer=trace.get("output")):
        if record.whole is None:
            record.outcome.reward = reward_of(first_of(scores_by_name, *REWARD))
            record.outcome.success = flag(first_of(scores_by_name, *SUCCESS))
        record.tags = [tag for tag in optional_list(trace, "tags") if type(tag) is str]
        yield record


def _span(entry: dict[str, Any]) -> Span:
    details = mapping(decoded(entry.get("metadata")))
    attributes = mapping(details.get("attributes"))
    usage = mapping(first_of(entry, "usageDetails", "usage"))
    failed = entry.get("level") == "ERROR"
    return Span(
        id=text(entry.get("id")),
        kind=KINDS.get(text(entry.get("type")), "other"),
        parent=text(entry.get("parentObservationId")),
        name=text(first_of(attributes, *NAME_OF_TOOL) or entry.get("name")),
        start=seconds_of(entry.get("startTime")) or 0.0,
        end=seconds_of(entry.get("endTime")),
        model=text(entry.get("model")),
        given=entry.get("input"),
        answer=entry.get("output"),
        tools=tools_offered(details.get("tools")),
        call_id=text(first_of(attributes, *CALL_ID)),
        prompt_tokens=count(usage.get("input")),
        completion_tokens=count(usage.get("output")),
        error=text(entry.get("statusMessage")) or "The call failed." if failed else None,
    )


FORMAT = Format(
    name="langfuse",
    title="Langfuse trace",
    shape="an object with `trace` and `observations`, or a trace with its `observations`",
    keys=("observations.id observations.type observations.startTime",),
    read=_read,
)
