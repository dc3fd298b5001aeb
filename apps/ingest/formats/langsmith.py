"""LangSmith runs: single ones (`run_type`, `inputs`, `outputs`), as its SDK and its exports give them, or with their `child_runs`.

The runs in a file are grouped by trace. The outcome is feedback named success, correctness, reward, or similar, if there is any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from apps.ingest.files.raw_records import as_one
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.columns import REWARD, SUCCESS
from apps.ingest.normalization.fields import count, first_of, flag, mapping, reward_of, seconds_of, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord, read_each
from apps.ingest.traces.payloads import read_payload, tools_offered
from apps.ingest.traces.recorded import read_by_trace
from apps.ingest.traces.threads import Span, trajectories_of
from contract import jsontext

SHAPE = "runs with `run_type`, `inputs` and `outputs`, one per line or with their `child_runs`"
KINDS: dict[str, Literal["model", "tool"]] = {"llm": "model", "tool": "tool"}


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) not in (dict, list):
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    runs = list(_runs(row if type(row) is list else [row], ""))
    with_calls = {run["trace_id"] for run in runs if run.get("run_type") == "llm"}
    alone = [run for run in runs if run["trace_id"] not in with_calls and not run.get("parent_run_id")]
    if alone:
        yield from read_each([(f"Run {text(run.get('id'))}", run) for run in alone], _of_root)
    if with_calls or not alone:
        calls = (run for run in runs if run["trace_id"] in with_calls)
        yield from read_by_trace(calls, lambda run: text(run["trace_id"]), _span, _in_trace, expected=f"{SHAPE}.")


def _of_root(run: dict[str, Any]) -> Iterator[TrajectoryRecord]:
    """A trace of which only the root run was exported: its output is the whole chat, or what came after its input."""
    inputs = read_payload(run.get("inputs") or None, "user").messages
    outputs = read_payload(run.get("outputs") or None, "assistant").messages
    is_whole = bool(inputs) and [(message["role"], message.get("content")) for message in outputs[: len(inputs)]] == [
        (message["role"], message.get("content")) for message in inputs
    ]
    if not any(message["role"] == "assistant" for message in outputs):
        raise BadRow("Its output has no message from a model.", f"{SHAPE}.")
    record = chat_trajectory(Chat({"id": run.get("id")}, outputs if is_whole else inputs + outputs, ()))
    record.info = _metadata(run)
    _judge(record, run)
    yield record


def _runs(entry: Json, trace: str) -> Iterator[dict[str, Any]]:
    """The runs and those nested in them, each with its trace."""
    for run in map(mapping, entry if type(entry) is list else ()):
        trace_id = text(run.get("trace_id")) or trace or text(run.get("id"))
        yield {**{key: value for key, value in run.items() if key != "child_runs"}, "trace_id": trace_id}
        yield from _runs(run.get("child_runs"), trace_id)


def _in_trace(trace: str, runs: list[dict[str, Any]], spans: list[Span]) -> Iterator[TrajectoryRecord]:
    root = next((run for run in runs if not run.get("parent_run_id")), {})
    for record in trajectories_of(spans, trace=trace, details=_metadata(root)):
        _judge(record, root)
        yield record


def _metadata(root: dict[str, Any]) -> dict[str, Json]:
    fields = {key: root[key] for key in ("name", "session_name", "start_time") if root.get(key)}
    return {"trace": fields, **({"scores": root["feedback_stats"]} if root.get("feedback_stats") else {})}


def _judge(record: TrajectoryRecord, root: dict[str, Any]) -> None:
    if record.whole is not None:
        return
    scores = {name: mapping(entry).get("avg") for name, entry in mapping(root.get("feedback_stats")).items()}
    record.outcome.reward, record.outcome.success = (
        reward_of(first_of(scores, *REWARD)),
        flag(first_of(scores, *SUCCESS)),
    )


def _span(run: dict[str, Any]) -> Span:
    extra = mapping(run.get("extra"))
    parameters, metadata = mapping(extra.get("invocation_params")), mapping(extra.get("metadata"))
    inputs, outputs = mapping(run.get("inputs")), mapping(run.get("outputs"))
    is_tool = run.get("run_type") == "tool"
    answer = outputs.get("output", run.get("outputs")) if is_tool else run.get("outputs")
    return Span(
        id=text(run.get("id")),
        kind=KINDS.get(text(run.get("run_type")), "other"),
        parent=text(run.get("parent_run_id")),
        name=text(run.get("name")),
        start=seconds_of(run.get("start_time")) or 0.0,
        end=seconds_of(run.get("end_time")),
        model=text(metadata.get("ls_model_name") or first_of(parameters, "model", "model_name")),
        given=inputs.get("input") if is_tool else run.get("inputs"),
        answer=mapping(answer).get("content", answer) if is_tool else answer,
        tools=tools_offered(parameters.get("tools")),
        call_id=text(mapping(answer).get("tool_call_id")) if is_tool else "",
        prompt_tokens=count(run.get("prompt_tokens")),
        completion_tokens=count(run.get("completion_tokens")),
        error=text(run.get("error")) or None,
    )


FORMAT = Format(
    name="langsmith",
    title="LangSmith runs",
    shape=SHAPE,
    keys=single_or_listed("run_type inputs"),
    read=_read,
    gather=as_one,
)
