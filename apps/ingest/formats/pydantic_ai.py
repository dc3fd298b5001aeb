"""Pydantic AI message histories: alternating requests and responses, each made of parts; a list, or a list under another key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.fields import count, first_of, mapping, required_list, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "a list of objects with `kind` “request” or “response” and `parts` with `part_kind`"
KINDS = ("request", "response")


def _messages_of(row: Json) -> list[dict[str, Any]]:
    """The turns; an empty list if the record isn't of this kind."""
    entry = row.get("messages") if type(row) is dict else row
    first = mapping(entry[0]) if type(entry) is list and entry else {}
    parts = first.get("parts")
    if type(entry) is not list or first.get("kind") not in KINDS or type(parts) is not list:
        return []
    return [mapping(turn) for turn in entry] if all("part_kind" in mapping(part) for part in parts) else []


def _accepts(row: Json) -> bool:
    return bool(_messages_of(row))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    turns = _messages_of(row)
    if not turns:
        raise BadRow(f"The record is {jsontext.describe(row)} without such messages.", f"{SHAPE}.")
    model = next(filter(None, (text(turn.get("model_name")) for turn in turns)), None)
    record = chat_trajectory(Chat({"model": model, **mapping(row)}, list(_messages(turns)), ("messages",)))
    for step in record.steps:
        usage = mapping(step.info.pop("usage", None))
        step.prompt_tokens = count(first_of(usage, "input_tokens", "request_tokens"))
        step.completion_tokens = count(first_of(usage, "output_tokens", "response_tokens"))
    yield record


def _messages(turns: list[dict[str, Any]]) -> Iterator[Message]:
    instructed = None
    for turn in turns:
        if turn.get("kind") == "request":
            if turn.get("instructions") and turn["instructions"] != instructed:  # repeated in every request
                instructed = turn["instructions"]
                yield {"role": "system", "content": instructed}
            yield from (_input_message(mapping(part)) for part in required_list(turn, "parts"))
        elif turn.get("kind") == "response":
            content = [_written(mapping(part)) for part in required_list(turn, "parts")]
            yield {"role": "assistant", "content": content, "usage": turn.get("usage")}
        else:
            raise BadRow(f"A turn's `kind` is “{text(turn.get('kind'))[:40]}”.", f"{SHAPE}.")


def _input_message(part: dict[str, Any]) -> Message:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "system-prompt":
        return {"role": "system", "content": content}
    if kind == "user-prompt":
        return {"role": "user", "content": content}
    if kind == "retry-prompt" and not part.get("tool_name"):
        return {"role": "user", "content": text(content)}
    if kind in ("tool-return", "retry-prompt"):
        answer = {"role": "tool", "tool_call_id": part.get("tool_call_id"), "name": part.get("tool_name")}
        return {**answer, "content": _returned(content), "is_error": kind == "retry-prompt"}
    raise BadRow(
        f"A part of a request has the kind “{text(kind)[:40]}”.", "system-, user- or retry-prompt, tool-return."
    )


def _returned(content: Json) -> Json:
    """What a tool returned as the model saw it: JSON, unless it includes files."""
    has_files = type(content) is list and any("kind" in mapping(item) for item in content)
    return content if has_files else text(content)


def _written(part: dict[str, Any]) -> Json:
    """A response part in chat form, including results of the provider's built-in tools."""
    kind = part.get("part_kind")
    if kind == "text":
        return {"type": "text", "text": part.get("content")}
    if kind == "thinking":
        return {"type": "thinking", "thinking": part.get("content")}
    if kind in ("tool-call", "builtin-tool-call"):
        call = {"id": part.get("tool_call_id"), "name": part.get("tool_name"), "arguments": part.get("args")}
        return {"type": "tool_call", **call}
    if kind == "builtin-tool-return":
        return {
            "type": "tool_result",
            "tool_use_id": part.get("tool_call_id"),
            "content": _returned(part.get("content")),
        }
    return part


FORMAT = Format(
    name="pydantic-ai",
    title="Pydantic AI messages",
    shape=SHAPE,
    keys=("messages.kind messages.parts.part_kind", "[].kind [].parts.part_kind"),
    accepts=_accepts,
    read=_read,
)
