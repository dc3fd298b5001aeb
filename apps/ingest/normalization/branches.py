"""Chats that people edited and had answered again: a tree of messages, of which each way from its root to an end is a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from apps.ingest.normalization.conversation import Conversation
from apps.ingest.records import BadParts, BadRow, Json, Message, TrajectoryRecord

MOST_WAYS = 200
"""Of one chat: each of them is stored whole."""
MOST_MESSAGES = 200_000
"""Of all ways together, also of those on which nobody answered: a chat of 50,000 messages that parts at each has a billion."""

T = TypeVar("T")


def ways(nodes: Mapping[str, T], parent_of: Callable[[T], str], current: str = "") -> Iterator[list[T]]:
    """The nodes from the root to each end, that of `current` first. A node whose parent is not there is a root."""
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
    told: Callable[[list[T]], Iterable[Message]],
    model_of: Callable[[T], str],
    *,
    name: str,
    info: dict[str, Json],
    expected: str,
) -> Iterator[TrajectoryRecord]:
    """A run for each way on which an assistant answered: `told` gives its messages, and the last model of it is the policy.

    Raises BadRow where nobody answered, and BadParts where there are too many ways.
    """
    number = length = 0
    for place, way in enumerate(found):
        if number == MOST_WAYS:
            raise BadParts(f"The conversation has more than {MOST_WAYS} branches.", "The first of them came in.")
        if place and (length := length + len(way)) > MOST_MESSAGES:
            reason = f"The conversation's branches have more than {MOST_MESSAGES:,} messages together."
            raise BadParts(reason, "The first of them came in.")
        conversation = Conversation()
        for message in told(way):
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
        raise BadRow("Nobody answers in this conversation.", expected)
