"""ChatGPT's export (`conversations.json`): conversations with a `mapping`, a tree of messages.

Edited messages and regenerated answers make separate trajectories of one task; the branch that was open comes first. A message to a tool is a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.branches import branch_paths, trajectories_along
from apps.ingest.normalization.fields import first_of, mapping, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "conversations with `mapping`, an object of nodes with `message`, `parent` and `children`"
RECAP = "reasoning_recap"
"""A caption that the page shows for reasoning; not a message."""
REMEMBERED = frozenset({"user_editable_context", "model_editable_context"})
"""Custom instructions and memories, stored as hidden messages."""

Node = dict[str, Any]


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict or not mapping(row.get("mapping")):
        raise BadRow(f"The record is {jsontext.describe(row)} without a `mapping`.", f"{SHAPE}.")
    nodes = {name: mapping(node) for name, node in row["mapping"].items()}
    paths = branch_paths(nodes, lambda node: text(node.get("parent")), text(row.get("current_node")))
    yield from trajectories_along(
        paths,
        _messages,
        lambda node: text(mapping(mapping(node.get("message")).get("metadata")).get("model_slug")),
        name=text(first_of(row, "conversation_id", "id")),
        info={key: row[key] for key in ("title", "gizmo_id") if row.get(key)},
        expected=f"{SHAPE}.",
    )


def _messages(path: list[Node]) -> Iterator[Message]:
    for node in path:
        message = mapping(node.get("message"))
        content, author = mapping(message.get("content")), mapping(message.get("author"))
        kind, role = text(content.get("content_type")), text(author.get("role"))
        if not message or kind == RECAP:
            continue
        body, to = _content_of(kind, content), text(message.get("recipient"))
        if kind == "thoughts":
            yield {"role": "reasoning", "content": body}
        elif role == "assistant" and to not in ("", "all"):
            arguments = body if text(body).lstrip().startswith("{") else {"input": body}
            yield {"role": "assistant", "content": None, "tool_calls": [{"name": to, "arguments": arguments}]}
        elif role == "tool":
            yield {"role": "tool", "name": text(author.get("name")), "content": body}
        elif body:
            yield {"role": "system" if kind in REMEMBERED else role, "content": body}


def _content_of(kind: str, content: dict[str, Any]) -> Json:
    if kind == "thoughts":
        thoughts = map(mapping, content["thoughts"] if type(content.get("thoughts")) is list else ())
        texts = (text(first_of(thought, "content", "summary")) for thought in thoughts)
        return "\n\n".join(filter(None, texts))
    if type(parts := content.get("parts")) is list:
        return "\n".join(parts) if all(type(part) is str for part in parts) else list(map(_part, parts))
    if kind in REMEMBERED:
        texts = (text(content.get(key)) for key in ("user_profile", "user_instructions", "model_set_context"))
        return "\n\n".join(filter(None, texts))
    value = first_of(content, "text", "result", "content")
    return text({key: value for key, value in content.items() if key != "content_type"} if value is None else value)


def _part(part: Json) -> Json:
    """Text, or a reference to other content: exports name images without including them."""
    if type(part) is str:
        return {"type": "text", "text": part}
    details = dict(mapping(part))
    return {"type": text(details.pop("content_type", None)) or "other", **details}


FORMAT = Format(
    name="chatgpt", title="ChatGPT export", shape=SHAPE, keys=("mapping.*.message mapping.*.parent",), read=_read
)
