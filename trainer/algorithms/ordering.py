"""The order in which rows are learnt."""

import random
from collections.abc import Sequence


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
