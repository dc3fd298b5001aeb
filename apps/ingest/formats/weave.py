"""Calls logged by W&B Weave, one per line or in a list, and results of HAL (Holistic Agent Leaderboard), which hold them by task.

The longest chat of a task is its trajectory, with the outcome from HAL's results; other chats, such as sub-agents', are trajectories without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.files.raw_records import as_one
from apps.ingest.formats import Format
from apps.ingest.normalization.fields import count, first_of, mapping, number, optional_list, seconds_of, text
from apps.ingest.records import BadParts, BadRow, Json, TrajectoryRecord
from apps.ingest.traces.recorded import read_by_trace
from apps.ingest.traces.threads import Span, trajectories_of
from contract import jsontext

SHAPE = "calls with `op_name`, `inputs` and `output`, one per line or in `raw_logging_results`"
LOGGED = "raw_logging_results"


def _is_call(entry: Json) -> bool:
    return {"op_name", "inputs"} <= mapping(entry).keys()


def _calls(row: Json) -> list[dict[str, Any]]:
    """The calls in a record; gathered lines form a list, even if the only one is HAL's."""
    entries = row if type(row) is list else [row]
    calls = [call for one in entries for call in optional_list(mapping(one), LOGGED) if _is_call(call)]
    return calls or [call for call in entries if _is_call(call)]


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) not in (dict, list):
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    hal = mapping(row[0] if type(row) is list and len(row) == 1 else row)
    config, results = mapping(hal.get("config")), mapping(hal.get("results"))

    def trajectories_in(task: str, calls: list[dict[str, Any]], spans: list[Span]) -> Iterator[TrajectoryRecord]:
        details: dict[str, Any] = {key: config[key] for key in ("agent_name", "run_id") if key in config}
        records: list[TrajectoryRecord] = []
        refused: BadParts | None = None
        try:
            records.extend(trajectories_of(spans, trace=task, details=details))
        except BadParts as some:
            refused = some
        if _task_of(calls[0]):
            longest = max(records, key=lambda record: len(record.steps))
            longest.task.key, longest.task.environment = task, text(config.get("benchmark_name"))
            longest.outcome.success = _success(results, task)
            for record in records:
                record.whole = None if record is longest else longest
        for record in records:
            record.id = "/".join(filter(None, (text(config.get("run_id")), record.id)))
            yield record
        if refused:
            raise refused

    yield from read_by_trace(_calls(row), _trace_of, _span, trajectories_in, expected=f"{SHAPE}.")


def _task_of(call: dict[str, Any]) -> str:
    return text(call.get("weave_task_id")) or text(mapping(call.get("attributes")).get("weave_task_id"))


def _trace_of(call: dict[str, Any]) -> str:
    return _task_of(call) or text(call.get("trace_id"))


def _success(results: dict[str, Any], task: str) -> bool | None:
    for key, outcome in (("successful_tasks", True), ("failed_tasks", False)):
        tasks = results.get(key)
        if type(tasks) is list and task in map(text, tasks):
            return outcome
    return None


def _span(call: dict[str, Any]) -> Span:
    inputs, output = mapping(call.get("inputs")), mapping(call.get("output"))
    usage = mapping(output.get("usage"))
    return Span(
        id=text(call.get("id")),
        kind="model" if inputs.get("messages") or "choices" in output else "other",
        parent=text(call.get("parent_id")),
        name=text(call.get("op_name")),
        start=seconds_of(first_of(call, "started_at", "created_timestamp")) or number(call.get("started_at")) or 0.0,
        end=seconds_of(call.get("ended_at")),
        model=text(first_of(output, "model") or inputs.get("model")),
        given={key: inputs[key] for key in ("messages", "system", "tools") if inputs.get(key)} or None,
        answer=call.get("output"),
        prompt_tokens=count(first_of(usage, "prompt_tokens", "input_tokens")),
        completion_tokens=count(first_of(usage, "completion_tokens", "output_tokens")),
        error=text(call.get("exception")) or None,
    )


FORMAT = Format(
    name="weave",
    title="W&B Weave calls, HAL results",
    shape=SHAPE,
    keys=("op_name inputs", "[].op_name [].inputs", f"{LOGGED}.op_name {LOGGED}.inputs"),
    read=_read,
    gather=as_one,
)
