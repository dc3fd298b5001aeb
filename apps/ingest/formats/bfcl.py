"""Results of the Berkeley Function Calling Leaderboard that include the dialogue: `inference_log`, present for multi-turn runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.fields import mapping, required_list
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "`id` and `inference_log`, a list in which objects with `begin_of_turn_query` are turns"
QUERY = "begin_of_turn_query"
STEP = "step_"


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    messages: list[Json] = []
    for turn in map(mapping, required_list(row, "inference_log")):
        if QUERY in turn:
            messages += required_list(turn, QUERY)
            messages += [_message(mapping(entry)) for entry in _entries(turn) if _is_message(entry)]
    record = chat_trajectory(Chat({"id": row.get("id")}, messages, ()))
    record.task.key, record.task.environment = record.id or record.task.key, "bfcl"
    record.info = {"result": row["result"]} if "result" in row else {}
    yield record


def _entries(turn: dict[str, Any]) -> Iterator[Json]:
    """The entries of a turn's steps, in order."""
    steps = [key for key in turn if key.startswith(STEP) and key.removeprefix(STEP).isdecimal()]
    for step in sorted(steps, key=lambda key: int(key.removeprefix(STEP))):
        yield from required_list(turn, step)


def _is_message(entry: Json) -> bool:
    """Whether an entry is a message; the rest are the harness's own notes."""
    return mapping(entry).get("role") in ("assistant", "tool", "user", "system")


def _message(entry: dict[str, Any]) -> Message:
    """Calls are objects of tool name and arguments; models that write calls as text keep them as text."""
    content = entry.get("content")
    if entry.get("role") != "assistant" or type(content) is not list or not all(map(_is_call, content)):
        return {key: value for key, value in entry.items() if key != "class_name"}
    calls = [{"name": name, "arguments": raw} for call in content for name, raw in call.items()]
    return {**entry, "content": None, "tool_calls": calls} if calls else {**entry, "content": ""}


def _is_call(entry: Json) -> bool:
    return bool(mapping(entry)) and "type" not in entry and all(type(v) in (str, dict) for v in entry.values())


FORMAT = Format(name="bfcl", title="BFCL results", shape=SHAPE, keys=(f"inference_log.{QUERY}",), read=_read)
