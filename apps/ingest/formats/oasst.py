"""OpenAssistant conversations: message trees, or their messages as table rows. Each path through a tree is a trajectory of its task.

People wrote both sides. Each answer keeps its rank, and each trajectory the rank of its last answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.files.raw_records import RawRow, grouped
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.branches import branch_paths, trajectories_along
from apps.ingest.normalization.fields import mapping, optional_list, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "`message_tree_id` with `prompt` and its `replies`, or with `message_id`, `parent_id`, `role` and `text`, one message per row"
TREE = "message_tree_id"
ROLES = {"prompter": "user", "assistant": "assistant"}
BESIDE = ("rank", "labels", "lang", "review_result", "synthetic", "model_name")
"""Message fields kept with the answer."""

Node = dict[str, Any]


def _is_message(row: Json) -> bool:
    details = mapping(row)
    return {TREE, "message_id", "text"} <= details.keys() and text(details.get("role")) in ROLES


def _accepts(row: Json) -> bool:
    first = row[0] if type(row) is list and row else row
    return _is_message(first) or (TREE in mapping(first) and "replies" in mapping(mapping(first).get("prompt")))


def _grouped(rows: Iterator[RawRow], limit: int) -> Iterator[RawRow]:
    """The messages of a tree are consecutive."""
    return grouped(rows, limit, lambda last, row: not _is_message(row) or mapping(last).get(TREE) != row[TREE])


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    nodes: dict[str, Node] = {}
    for line in map(mapping, row if type(row) is list else [row]):
        if "prompt" in line:
            _add_tree(nodes, mapping(line["prompt"]), "")
        elif _is_message(line):
            nodes[text(line["message_id"])] = line
    if not nodes:
        raise BadRow(f"The record is {jsontext.describe(row)} without messages.", f"{SHAPE}.")
    name = text(next(iter(nodes.values())).get(TREE)) or next(iter(nodes))
    paths = branch_paths(nodes, lambda node: text(node.get("parent_id")))
    for record in trajectories_along(
        paths,
        lambda path: map(_message, path),
        lambda node: text(node.get("model_name")),
        name=name,
        info={},
        expected=f"{SHAPE}.",
    ):
        if (rank := record.steps[-1].info.get("rank")) is not None:
            record.info = {"rank": rank}
        yield record


def _add_tree(nodes: dict[str, Node], root: Node, parent: str) -> None:
    """Add a message and all replies below it to `nodes`, by id and with their parents."""
    waiting = [(root, parent)]
    while waiting:
        node, above = waiting.pop()
        name = text(node.get("message_id")) or str(len(nodes))
        nodes[name] = {**node, "parent_id": above}
        waiting += [(mapping(reply), name) for reply in reversed(optional_list(node, "replies"))]


def _message(node: Node) -> Message:
    message = {"role": ROLES.get(text(node.get("role")), node.get("role")), "content": text(node.get("text"))}
    if message["role"] != "assistant":
        return message
    return message | {key: node[key] for key in BESIDE if node.get(key) is not None}


FORMAT = Format(
    name="oasst",
    title="OpenAssistant conversations",
    shape=SHAPE,
    keys=single_or_listed(f"{TREE} message_id text", f"{TREE} prompt.replies"),
    accepts=_accepts,
    read=_read,
    gather=_grouped,
)
