"""The order of training rows."""

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler
from trl.trainer.utils import RepeatSampler


def order_of_rows(lengths: Sequence[int], *, together: int, count: int, seed: int) -> list[int]:
    """`count` indices into `lengths`: repeated passes over all of them, each reshuffled; deterministic for a seed.

    The `together` rows of one optimizer step are sorted by length, so that its forward passes have rows of similar length and little
    padding. Rows aren't sorted across steps: a step of only short rows would learn one kind of task and forget another.
    """
    order: list[int] = []
    number = 0
    while len(order) < count:
        indices = list(range(len(lengths)))
        random.Random(f"{seed} {number}").shuffle(indices)
        order += indices
        number += 1
    steps = (order[start : start + together] for start in range(0, count, together))
    return [index for step in steps for index in sorted(step, key=lambda index: lengths[index])][:count]


class OrderOfEpoch(Sampler[int]):
    """The order in which TRL's online trainers take tasks, drawn for each epoch from the seed and the epoch's number.

    TRL draws each epoch's order from the generator state left by the previous one, which a resumed run doesn't have.
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
