"""Claude.ai's export (`conversations.json`): conversations with `chat_messages` of “human” and “assistant”.

Edited messages and regenerated answers make separate trajectories. The text of attachments is part of the person's message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.branches import branch_paths, trajectories_along
from apps.ingest.normalization.fields import first_of, mapping, optional_list, required_list, text
from apps.ingest.normalization.parts import kind_of
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "conversations with `uuid` and `chat_messages`, each with `sender` and `text` or `content`"
ASIDE = frozenset({"token_budget", "flag"})
"""Content parts that aren't part of the message."""

RawMessage = dict[str, Any]


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    messages = list(map(mapping, required_list(row, "chat_messages")))
    if all(text(message.get("parent_message_uuid")) for message in messages):
        messages_by_id = {text(message.get("uuid")): message for message in messages}
        last = text(row.get("current_leaf_message_uuid")) or text(messages[-1].get("uuid")) if messages else ""
        paths = branch_paths(messages_by_id, lambda message: text(message.get("parent_message_uuid")), last)
    else:
        paths = iter([messages])
    yield from trajectories_along(
        paths,
        lambda path: map(_message, path),
        lambda message: text(message.get("model")) or text(row.get("model")),
        name=text(row.get("uuid")),
        info={key: row[key] for key in ("name", "summary") if row.get(key)},
        expected=f"{SHAPE}.",
    )


def _message(entry: RawMessage) -> Message:
    parts = [part for part in optional_list(entry, "content") if kind_of(part) not in ASIDE]
    if not any(text(mapping(part).get("text")) or kind_of(part) != "text" for part in parts):
        parts = [{"type": "text", "text": text(entry.get("text"))}]
    for attached in map(mapping, optional_list(entry, "attachments")):
        if content := first_of(attached, "extracted_content"):
            parts.append({"type": "text", "text": f"{text(attached.get('file_name'))}\n{text(content)}"})
    return {"role": text(entry.get("sender")), "content": list(map(_plain, parts))}


def _plain(part: Json) -> Json:
    """A part; text parts lose their timestamps and citation marks."""
    return {"type": "text", "text": part.get("text")} if kind_of(part) == "text" else part


FORMAT = Format(name="claude-ai", title="Claude.ai export", shape=SHAPE, keys=("chat_messages.sender",), read=_read)
