"""The order in which rows are learned."""

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler
from trl.trainer.utils import RepeatSampler


def order_of_rows(lengths: Sequence[int], *, together: int, count: int, seed: int) -> list[int]:
    """`count` places in `lengths`, pass after pass over all of them, each pass shuffled anew; the same for the same seed.

    The `together` rows of one optimizer step stand sorted by length, so that each of its forward passes has rows of like length and little
    padding. Rows of different steps are never sorted: a step of nothing but short rows would learn one kind of task and forget another.
    """
    order: list[int] = []
    number = 0
    while len(order) < count:
        places = list(range(len(lengths)))
        random.Random(f"{seed} {number}").shuffle(places)
        order += places
        number += 1
    steps = (order[start : start + together] for start in range(0, count, together))
    return [place for step in steps for place in sorted(step, key=lambda place: lengths[place])][:count]


class OrderOfEpoch(Sampler[int]):
    """The order in which TRL's online trainers take tasks, drawn for each epoch from the seed and the epoch's number.

    TRL draws an epoch's order from where the one before has left its generator, which a run that goes on later does not know.
    """

    def __init__(self, tasks: RepeatSampler, seed: int) -> None:
        self._tasks = tasks
        self._seed = seed

    def set_epoch(self, epoch: int) -> None:
        self._tasks.generator.manual_seed(self._seed + epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)
