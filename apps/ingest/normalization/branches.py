"""Chats with edited messages and regenerated answers: a message tree in which each path from the root to a leaf is a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from apps.ingest.normalization.conversation import Conversation
from apps.ingest.records import BadParts, BadRow, Json, Message, TrajectoryRecord

MAX_BRANCHES = 200
"""Paths per chat, since each is stored in full."""
MAX_MESSAGES = 200_000
"""Messages of all paths together, including those without an answer: a chat of 50,000 messages that branches at each has a billion."""

T = TypeVar("T")


def branch_paths(nodes: Mapping[str, T], parent_of: Callable[[T], str], current: str = "") -> Iterator[list[T]]:
    """The path from the root to each leaf, that of `current` first. A node whose parent is missing is a root."""
    parents = {name: parent_of(node) for name, node in nodes.items()}
    answered = set(parents.values())
    for end in sorted((name for name in nodes if name not in answered), key=lambda name: name != current):
        path: dict[str, T] = {}
        message_id = end
        while message_id in nodes and message_id not in path:
            path[message_id] = nodes[message_id]
            message_id = parents[message_id]
        yield [*reversed(path.values())]


def trajectories_along(
    paths: Iterable[list[T]],
    messages_of: Callable[[list[T]], Iterable[Message]],
    model_of: Callable[[T], str],
    *,
    name: str,
    info: dict[str, Json],
    expected: str,
) -> Iterator[TrajectoryRecord]:
    """One trajectory per path with an assistant's answer: `messages_of` returns its messages; the policy is the last model on the path.

    Raises BadRow if no path has an answer, and BadParts if there are too many.
    """
    number = length = 0
    for index, path in enumerate(paths):
        if number == MAX_BRANCHES:
            raise BadParts(f"The conversation has more than {MAX_BRANCHES} branches.", "The first ones were imported.")
        if index and (length := length + len(path)) > MAX_MESSAGES:
            reason = f"The conversation's branches have more than {MAX_MESSAGES:,} messages together."
            raise BadParts(reason, "The first ones were imported.")
        conversation = Conversation()
        for message in messages_of(path):
            conversation.add(message)
        if not conversation.steps:
            continue
        number += 1
        models = [model for node in path if (model := model_of(node))]
        record = conversation.trajectory(
            policy=models[-1] if models else "",
            id=name if number == 1 else f"{name}/{number}",
            info=info,
        )
        if index:
            record.part = path
        yield record
    if not number:
        raise BadRow("This conversation has no answers.", expected)
