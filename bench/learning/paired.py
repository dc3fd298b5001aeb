"""Paired comparison of two policies: the difference of success per task has a smaller variance than the two rates."""

from collections.abc import Mapping
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple


class Difference(NamedTuple):
    """A mean difference over tasks, with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


def difference(before: Mapping[str, bool], after: Mapping[str, bool], z: float = 1.959964) -> Difference:
    """The mean increase in success from `before` to `after`, both task -> success on the same two or more tasks, with the normal interval of the mean
    of the differences.

    Raises ValueError if the tasks differ.
    """
    if before.keys() != after.keys():
        only = sorted(before.keys() ^ after.keys())
        raise ValueError(
            f"Both policies must have played the same tasks; {only[0]!r} and {len(only) - 1} others had one side only."
        )
    differences = [after[task] - before[task] for task in before]
    mean = fmean(differences)
    half = z * stdev(differences) / sqrt(len(differences))
    return Difference(round(mean, 4), round(mean - half, 4), round(mean + half, 4), len(differences))
