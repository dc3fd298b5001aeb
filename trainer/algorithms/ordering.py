"""The order in which rows are learnt: shuffled, with rows of like length in the same batch, so that little is padding."""

import random
from collections.abc import Sequence

BATCHES_SORTED_TOGETHER = 50


def order_by_length(lengths: Sequence[int], *, batch: int, count: int, seed: int) -> list[int]:
    """`count` places in `lengths`, pass after pass over all of them, each pass in another order; the same for the same seed.

    A pass is shuffled, and cut into pieces; each piece is sorted by length, cut into batches, and these are shuffled.
    """
    order: list[int] = []
    number = 0
    while len(order) < count:
        rng = random.Random(f"{seed} {number}")
        places = list(range(len(lengths)))
        rng.shuffle(places)
        size = batch * BATCHES_SORTED_TOGETHER
        for start in range(0, len(places), size):
            piece = sorted(places[start : start + size], key=lambda place: lengths[place])
            batches = [piece[first : first + batch] for first in range(0, len(piece), batch)]
            whole = batches if len(batches[-1]) == batch else batches[:-1]
            rng.shuffle(whole)
            order += [place for each in whole for place in each]
            order += batches[-1] if whole is not batches else []
        number += 1
    return order[:count]
