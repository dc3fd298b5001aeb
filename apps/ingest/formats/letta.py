"""Messages as Letta's API returns them: entries with `message_type`, where reasoning, calls, and results are separate entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.fields import mapping, optional_list, seconds_of, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "a list of messages with `message_type` (“user_message”, “tool_call_message”, …), alone or in `messages`"
ROLES = {"system_message": "system", "user_message": "user", "assistant_message": "assistant"}
REASONING, ENCRYPTED = "reasoning_message", "hidden_reasoning_message"
CALLS = ("tool_call_message", "approval_request_message")
RESULT = "tool_return_message"
SUMMARY = "summary_message"
"""What the agent is shown in place of earlier messages."""
KNOWN = frozenset({*ROLES, REASONING, ENCRYPTED, *CALLS, RESULT, SUMMARY})


def _entries(row: Json) -> list[dict[str, Any]]:
    entry = row if type(row) is list else mapping(row).get("messages")
    entries = [mapping(message) for message in entry] if type(entry) is list else []
    if not any(text(message.get("message_type")) in KNOWN for message in entries):
        return []
    times = [at for message in entries if (at := seconds_of(message.get("date"))) is not None]
    is_newest_first = bool(times) and times[0] > times[-1]  # the API's default
    return entries[::-1] if is_newest_first else entries


def _accepts(row: Json) -> bool:
    return bool(_entries(row))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    entries = _entries(row)
    if not entries:
        raise BadRow(f"The record is {jsontext.describe(row)} without such messages.", f"{SHAPE}.")
    messages = [message for entry in entries for message in _message(entry)]
    yield chat_trajectory(Chat(mapping(row), messages, ("messages",)))


def _message(entry: dict[str, Any]) -> Iterator[Message]:
    """The messages of an entry; none for usage statistics, stop reasons, and encrypted reasoning."""
    kind = text(entry.get("message_type"))
    if kind in ROLES:
        yield {"role": ROLES[kind], "content": entry.get("content")}
    elif kind == SUMMARY:
        yield {"role": "user", "content": entry.get("summary")}
    elif kind == REASONING:
        yield {"role": "reasoning", "content": entry.get("reasoning")}
    elif kind in CALLS:
        for call in optional_list(entry, "tool_calls") or [entry.get("tool_call")]:
            yield {"role": "function_call", **mapping(call)}
    elif kind == RESULT:
        for result in map(mapping, optional_list(entry, "tool_returns") or [entry]):
            failed = result.get("status") == "error"
            answer = {"tool_call_id": result.get("tool_call_id"), "name": result.get("name")}
            yield {"role": "tool", **answer, "content": result.get("tool_return"), "is_error": failed or None}


FORMAT = Format(
    name="letta",
    title="Letta messages",
    shape=SHAPE,
    keys=("[].message_type", "messages.message_type"),
    accepts=_accepts,
    read=_read,
)
