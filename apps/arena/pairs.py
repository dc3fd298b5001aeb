"""Pairs the trajectories of two policies. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from apps.annotation.kinds.pair_selection import Pair


class Attempt(NamedTuple):
    """A trajectory at a task."""

    task: UUID
    trajectory: UUID
    course: int | None
    """Equal for indistinguishable trajectories; None if unknown."""


class Alike(NamedTuple):
    """Two indistinguishable trajectories of a task: a tie, which nobody is asked to judge."""

    task: UUID
    position: int
    """The number of judged pairs that come before it."""


@dataclass(frozen=True, kw_only=True)
class Matching:
    """Pairs of a trajectory of A and one of B on the same task, and how many tasks only one side finished."""

    pairs: list[Pair] = field(default_factory=list)
    """The pairs that are distinguishable."""
    alike: list[Alike] = field(default_factory=list)
    unmatched_tasks: int = 0


def match(attempts_a: Iterable[Attempt], attempts_b: Iterable[Attempt]) -> Matching:
    """Pair A's k-th trajectory with B's k-th, task by task. Trajectories are in the order of their samples.

    Each is used once: judging all combinations would cost more judgments that each carry less information.
    """
    by_task: dict[UUID, tuple[list[Attempt], list[Attempt]]] = defaultdict(lambda: ([], []))
    for side, attempts in enumerate((attempts_a, attempts_b)):
        for attempt in attempts:
            by_task[attempt.task][side].append(attempt)
    pairs: list[Pair] = []
    alike: list[Alike] = []
    for task, sides in by_task.items():
        for a, b in zip(*sides, strict=False):
            if a.course is not None and a.course == b.course:
                alike.append(Alike(task, len(pairs)))
            else:
                pairs.append(Pair(task, a.trajectory, b.trajectory))
    unmatched = sum(1 for a, b in by_task.values() if not a or not b)
    return Matching(pairs=pairs, alike=alike, unmatched_tasks=unmatched)
