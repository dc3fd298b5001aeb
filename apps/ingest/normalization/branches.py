"""Chats with edited messages and regenerated answers: a message tree in which each path from the root to a leaf is a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from apps.ingest.normalization.conversation import Conversation
from apps.ingest.records import BadParts, BadRow, Json, Message, TrajectoryRecord

MOST_WAYS = 200
"""Paths per chat, since each is stored in full."""
MOST_MESSAGES = 200_000
"""Messages of all paths together, including those without an answer: a chat of 50,000 messages that branches at each has a billion."""

T = TypeVar("T")


def ways(nodes: Mapping[str, T], parent_of: Callable[[T], str], current: str = "") -> Iterator[list[T]]:
    """The path from the root to each leaf, that of `current` first. A node whose parent is missing is a root."""
    parents = {name: parent_of(node) for name, node in nodes.items()}
    answered = set(parents.values())
    for end in sorted((name for name in nodes if name not in answered), key=lambda name: name != current):
        way: dict[str, T] = {}
        here = end
        while here in nodes and here not in way:
            way[here] = nodes[here]
            here = parents[here]
        yield [*reversed(way.values())]


def runs_along(
    found: Iterable[list[T]],
    messages_of: Callable[[list[T]], Iterable[Message]],
    model_of: Callable[[T], str],
    *,
    name: str,
    info: dict[str, Json],
    expected: str,
) -> Iterator[TrajectoryRecord]:
    """One run per path with an assistant's answer: `messages_of` returns its messages; the policy is the last model on the path.

    Raises BadRow if no path has an answer, and BadParts if there are too many.
    """
    number = length = 0
    for place, way in enumerate(found):
        if number == MOST_WAYS:
            raise BadParts(f"The conversation has more than {MOST_WAYS} branches.", "The first ones were imported.")
        if place and (length := length + len(way)) > MOST_MESSAGES:
            reason = f"The conversation's branches have more than {MOST_MESSAGES:,} messages together."
            raise BadParts(reason, "The first ones were imported.")
        conversation = Conversation()
        for message in messages_of(way):
            conversation.add(message)
        if not conversation.steps:
            continue
        number += 1
        models = [model for node in way if (model := model_of(node))]
        run = conversation.run(
            policy=models[-1] if models else "",
            id=name if number == 1 else f"{name}/{number}",
            info=info,
        )
        if place:
            run.part = way
        yield run
    if not number:
        raise BadRow("This conversation has no answers.", expected)
