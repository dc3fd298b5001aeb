"""Logs of an agent's model calls, one per line, as AppWorld (`lm_calls.jsonl`), AutoGen (`LLMCall`), and SWE-agent write them.

Each call's input is the whole chat so far, so a file's calls are joined into chats, as in traces. A request and its
response may be two lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.files.raw_records import as_one
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.fields import count, first_of, mapping, seconds_of, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from apps.ingest.traces.payloads import tools_offered
from apps.ingest.traces.threads import Span, trajectories_of
from contract import jsontext

SHAPE = "calls of a model, one per line: `input` with `messages` and `output` with `choices`, or `type` “LLMCall” or “request”"
REQUEST, RESPONSE = "request", "response"


def _is_call(line: dict[str, Any]) -> bool:
    if "messages" in mapping(line.get("input")) and "choices" in mapping(line.get("output")):
        return True
    return line.get("type") in ("LLMCall", REQUEST) and type(line.get("messages")) is list


def _accepts(row: Json) -> bool:
    return _is_call(mapping(row[0] if type(row) is list and row else row))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    lines = [mapping(line) for line in (row if type(row) is list else [row])]
    spans: list[Span] = []
    request: dict[str, Any] = {}
    for line in [*lines, {"type": REQUEST}]:
        if line.get("type") == RESPONSE:
            _add(spans, request, line)
            request = {}
            continue
        if request:  # the answer to the previous request wasn't kept
            _add(spans, request, {})
        request = line if line.get("type") == REQUEST and "messages" in line else {}
        if not request and _is_call(line):
            _add(spans, mapping(line.get("input")) or line, line)
    if not spans:
        raise BadRow(f"The record is {jsontext.describe(row)} without a model call.", f"{SHAPE}.")
    for record in trajectories_of(spans, trace="", details={}):
        record.id = ""
        for step in record.steps:
            step.info.pop("span", None)
        yield record


def _add(spans: list[Span], request: dict[str, Any], response: dict[str, Any]) -> None:
    """Append a call; `request` and `response` may be the same line."""
    answer = first_of(response, "output", "response", "outputs")
    usage = mapping(mapping(answer).get("usage"))
    begun, ended = (seconds_of(line.get("timestamp")) for line in (request, response))
    span = Span(
        id=str(len(spans)),
        kind="model",
        start=max(begun or 0.0, spans[-1].start if spans else 0.0),
        end=ended if request is not response else None,
        model=text(request.get("model") or mapping(answer).get("model")),
        given={"messages": request.get("messages")},
        answer=_message(answer),
        tools=tools_offered(request.get("tools")),
        prompt_tokens=count(first_of(usage, "prompt_tokens") or first_of(response, "prompt_tokens", "input_tokens")),
        completion_tokens=count(
            first_of(usage, "completion_tokens") or first_of(response, "completion_tokens", "output_tokens")
        ),
    )
    spans.append(span)


def _message(answer: Json) -> Json:
    """The first message in SWE-agent's list of outputs; any other answer unchanged."""
    first = mapping(answer[0]) if type(answer) is list and answer else {}
    if type(first.get("message")) is not str:
        return answer
    return {"role": "assistant", "content": first["message"], "tool_calls": first.get("tool_calls")}


FORMAT = Format(
    name="model-calls",
    title="Logs of a model's calls",
    shape=SHAPE,
    keys=single_or_listed("input.messages output.choices", "type messages"),
    accepts=_accepts,
    read=_read,
    gather=as_one,
)
