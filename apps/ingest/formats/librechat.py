"""LibreChat's exported conversations: `messages` that name their parent. Other branches are trajectories of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.branches import branch_paths, trajectories_along
from apps.ingest.normalization.fields import first_of, mapping, optional_list, required_list, text
from apps.ingest.normalization.parts import kind_of
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "`conversationId` and `messages`, each with `messageId`, `isCreatedByUser` and `text` or `content`"

RawMessage = dict[str, Any]


def _all(entries: list[Json]) -> Iterator[RawMessage]:
    """The messages, including replies nested inside them."""
    for message in map(mapping, entries):
        yield message
        yield from _all(optional_list(message, "children"))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    messages = {text(message.get("messageId")): message for message in _all(required_list(row, "messages"))}
    options = mapping(row.get("options"))
    system = [{"role": "system", "content": prompt}] if (prompt := text(options.get("promptPrefix"))) else []
    yield from trajectories_along(
        branch_paths(messages, lambda message: text(message.get("parentMessageId")), next(reversed(messages), "")),
        lambda path: [*system, *(_message(message) for message in path)],
        lambda message: "" if message.get("isCreatedByUser") else text(first_of(message, "model", "sender")),
        name=text(row.get("conversationId")),
        info={key: row[key] for key in ("title", "endpoint") if row.get(key)},
        expected=f"{SHAPE}.",
    )


def _message(entry: RawMessage) -> Message:
    role = "user" if entry.get("isCreatedByUser") else "assistant"
    parts = [entry_part for part in optional_list(entry, "content") for entry_part in _parts(part)]
    is_error = entry.get("error") is True  # its text is LibreChat's, not the policy's
    return {"role": role, "content": parts or text(entry.get("text")), **({"loss": False} if is_error else {})}


def _parts(value: Json) -> Iterator[Json]:
    part = mapping(value)
    if call := mapping(part.get("tool_call")):
        called = mapping(call.get("function")) or call  # the former is how assistants' calls are stored
        arguments = first_of(called, "args", "arguments")
        yield {"type": "tool_use", "id": call.get("id"), "name": called.get("name"), "input": arguments}
        if called.get("output") is not None:
            yield {"type": "tool_result", "tool_use_id": call.get("id"), "content": called["output"]}
    elif part.get("think") is not None:
        yield {"type": "thinking", "thinking": text(part["think"])}
    elif kind_of(part) == "text":
        content = part.get("text")
        yield {"type": "text", "text": text(mapping(content).get("value", content))}
    elif part:
        yield part


FORMAT = Format(
    name="librechat",
    title="LibreChat export",
    shape=SHAPE,
    keys=("messages.messageId messages.isCreatedByUser",),
    read=_read,
)
