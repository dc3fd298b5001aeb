"""The result of reading any format: the trajectory of `contract.trajectory`, plus data needed only while reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

from contract.messages import Message, text_of
from contract.trajectory import Outcome, Trajectory
from contract.trajectory import Step as StepRecord
from contract.trajectory import Task as TaskRecord
from contract.values import BadRow, Json

__all__ = [
    "BadParts",
    "BadRow",
    "Json",
    "Message",
    "Outcome",
    "StepRecord",
    "TaskRecord",
    "TrajectoryRecord",
    "numbered",
    "read_each",
    "text_of",
]


class BadParts(BadRow):
    """Some trajectories of a record can't be read; those yielded before this was raised are kept."""


@dataclass(slots=True)
class TrajectoryRecord(Trajectory):
    """One attempt at a task, as a format yields it. Named record because the models in apps have the bare names."""

    part: Json = None
    """For source records with several trajectories, this trajectory's part of it: kept as its original instead of the whole record."""
    whole: TrajectoryRecord | None = None
    """For a sub-agent's trajectory, that of the agent which called it: its task is a part of that one's."""


T = TypeVar("T")
MAX_NAMED = 20
"""Trajectories of one record whose errors are reported individually."""


def numbered(called: str, parts: Iterable[T]) -> Iterator[tuple[str, T]]:
    """The parts of a record with their names: “Sample 1”, “Sample 2”, …"""
    return ((f"{called} {index}", part) for index, part in enumerate(parts, start=1))


def read_each(
    parts: Iterable[tuple[str, T]], read: Callable[[T], Iterable[TrajectoryRecord]]
) -> Iterator[TrajectoryRecord]:
    """The trajectories of a record with several named parts. One that can't be read doesn't affect the others. Raises BadParts.

    Parts are consumed lazily: a few thousand bytes can hold millions, of which only the first will be needed.
    """
    refusals: list[BadRow] = []
    parts = iter(parts)
    first = list(islice(parts, 2))
    count = refused = 0
    for name, part in chain(first, parts):
        count += 1
        try:
            for record in read(part):
                if len(first) > 1:
                    record.part = part
                yield record
        except BadRow as refusal:
            refused += 1
            if len(refusals) < MAX_NAMED:
                refusals.append(BadRow(f"{name}: {refusal.reason}", refusal.expected))
    if refusals:
        reasons = " ".join(refusal.reason for refusal in refusals)
        rest = f" ({refused} of {count} could not be read.)" if count > 1 else ""
        raise BadParts(reasons + rest, refusals[0].expected)
