"""Which runs are judged by themselves: all of each task, or some drawn by chance. Pure, as `pairing` is for pairs."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from random import Random
from uuid import UUID

from apps.annotation.queues.pairing import Pairing, Preview, Run


def draw_runs(pairing: Pairing, task: UUID, runs: Sequence[Run]) -> list[UUID]:
    """The runs of one task, at most `per_task` of them: the same ones whenever the runs are the same."""
    ids = [run.id for run in runs]
    if pairing.per_task is None or pairing.per_task >= len(ids):
        return ids
    chosen = Random(f"{pairing.seed} {task}").sample(range(len(ids)), pairing.per_task)
    return [ids[place] for place in sorted(chosen)]


def preview_runs(pairing: Pairing, sizes: Iterable[int]) -> Preview:
    """Count over tasks, each given as how many runs it has."""
    result = Preview()
    for size in sizes:
        drawn = size if pairing.per_task is None else min(size, pairing.per_task)
        result.tasks += 1
        result.paired_tasks += 1
        result.runs += size
        result.paired_runs += drawn
        result.items += drawn
    return result


def shuffled_place(seed: int, run: UUID) -> int:
    """A place by chance for `run`, as `pairing.shuffled_position` is for pairs."""
    return int.from_bytes(blake2b(f"{seed} {run}".encode(), digest_size=8).digest(), "big") >> 1
