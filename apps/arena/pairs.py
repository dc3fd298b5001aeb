"""Which run of one policy meets which trajectory of the other. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from apps.annotation.kinds.pair_selection import Pair


class Attempt(NamedTuple):
    """A run at a task."""

    task: UUID
    run: UUID
    course: int | None
    """Equal for trajectories that cannot be told apart; None where it is not known."""


class Alike(NamedTuple):
    """Two trajectories of a task that cannot be told apart: a tie that nobody is asked about."""

    task: UUID
    place: int
    """How many of the pairs that are asked about come before it."""


@dataclass(frozen=True, kw_only=True)
class Matching:
    """Pairs of a trajectory of A and a trajectory of B on the same task, and how many tasks only one side finished."""

    pairs: list[Pair] = field(default_factory=list)
    """Those that somebody could tell apart."""
    alike: list[Alike] = field(default_factory=list)
    unmatched_tasks: int = 0


def match(runs_a: Iterable[Attempt], runs_b: Iterable[Attempt]) -> Matching:
    """Pair the k-th run of A with the k-th run of B, task by task. Trajectories come in the order of their samples.

    A run takes part once: crossing every trajectory with every other would ask people for more judgments that say less.
    """
    by_task: dict[UUID, tuple[list[Attempt], list[Attempt]]] = defaultdict(lambda: ([], []))
    for side, runs in enumerate((runs_a, runs_b)):
        for attempt in runs:
            by_task[attempt.task][side].append(attempt)
    pairs: list[Pair] = []
    alike: list[Alike] = []
    for task, sides in by_task.items():
        for a, b in zip(*sides, strict=False):
            if a.course is not None and a.course == b.course:
                alike.append(Alike(task, len(pairs)))
            else:
                pairs.append(Pair(task, a.run, b.run))
    unmatched = sum(1 for a, b in by_task.values() if not a or not b)
    return Matching(pairs=pairs, alike=alike, unmatched_tasks=unmatched)
