"""Traces of OpenAI's Agents SDK: `trace` and `trace.span` objects, one per line, in a list, or spans nested in their trace.

Models' inputs and outputs are in `generation` spans; `response` spans only name a response stored at OpenAI, so
they are useless unless the recorder included the chat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from apps.ingest.files.raw_records import as_one
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.fields import count, first_of, mapping, seconds_of, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from apps.ingest.traces.payloads import tools_offered
from apps.ingest.traces.recorded import read_by_trace
from apps.ingest.traces.threads import Span, trajectories_of
from contract import jsontext

SHAPE = "`trace` and `trace.span` objects with `span_data`, some of the type generation"
KINDS: dict[str, Literal["model", "tool"]] = {"generation": "model", "response": "model", "function": "tool"}
LISTS = ("data", "traces", "spans")


def _objects(row: Json) -> Iterator[dict[str, Any]]:
    """The traces and spans in a record, however it nests them."""
    for entry in row if type(row) is list else [row]:
        details = mapping(entry)
        if text(details.get("object")) in ("trace", "trace.span"):
            yield details
        for name in LISTS:
            if type(details.get(name)) is list:
                yield from _objects(details[name])


def _accepts(row: Json) -> bool:
    return next(_objects(row), None) is not None if type(row) in (dict, list) else False


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) not in (dict, list):
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    objects = list(_objects(row))
    traces = {text(item.get("id")): item for item in objects if item["object"] == "trace"}
    spans = [item for item in objects if item["object"] == "trace.span"]

    def trajectories_in(trace: str, calls: list[dict[str, Any]], recorded: list[Span]) -> Iterator[TrajectoryRecord]:
        trace_info = {key: traces.get(trace, {}).get(key) for key in ("workflow_name", "group_id", "metadata")}
        return trajectories_of(
            recorded, trace=trace, details={"trace": {key: value for key, value in trace_info.items() if value}}
        )

    yield from read_by_trace(
        spans, lambda span: text(span.get("trace_id")), _span, trajectories_in, expected=f"{SHAPE}."
    )


def _span(entry: dict[str, Any]) -> Span:
    data = mapping(entry.get("span_data"))
    usage = mapping(data.get("usage"))
    failed = mapping(entry.get("error"))
    return Span(
        id=text(entry.get("id")),
        kind=KINDS.get(text(data.get("type")), "other"),
        parent=text(entry.get("parent_id")),
        name=text(data.get("name")),
        start=seconds_of(entry.get("started_at")) or 0.0,
        end=seconds_of(entry.get("ended_at")),
        model=text(data.get("model")),
        given=data.get("input"),
        answer=first_of(data, "output", "response"),
        tools=tools_offered(data.get("tools")) if data.get("type") != "agent" else [],
        prompt_tokens=count(usage.get("input_tokens")),
        completion_tokens=count(usage.get("output_tokens")),
        error=text(failed.get("message")) or None,
    )


FORMAT = Format(
    name="agents-sdk",
    title="OpenAI Agents SDK trace",
    shape=SHAPE,
    keys=single_or_listed("object", "data.object", "traces.object", "spans.object"),
    accepts=_accepts,
    read=_read,
    gather=as_one,
)
