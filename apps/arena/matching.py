"""Which run of one policy meets which run of the other. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from apps.annotation.pairing import Pair


@dataclass(frozen=True, kw_only=True)
class Matching:
    """Pairs of a run of A and a run of B on the same task, and how many tasks only one side finished."""

    pairs: list[Pair] = field(default_factory=list)
    unmatched_tasks: int = 0


def match(runs_a: Iterable[tuple[UUID, UUID]], runs_b: Iterable[tuple[UUID, UUID]]) -> Matching:
    """Pair the k-th run of A with the k-th run of B, task by task. Runs are (task, trajectory), in the order of their samples.

    A run takes part once: crossing every run with every other would ask people for more judgements that say less.
    """
    by_task: dict[UUID, tuple[list[UUID], list[UUID]]] = defaultdict(lambda: ([], []))
    for task, run in runs_a:
        by_task[task][0].append(run)
    for task, run in runs_b:
        by_task[task][1].append(run)
    pairs = [Pair(task, *runs) for task, (a, b) in by_task.items() for runs in zip(a, b, strict=False)]
    unmatched = sum(1 for a, b in by_task.values() if not a or not b)
    return Matching(pairs=pairs, unmatched_tasks=unmatched)
