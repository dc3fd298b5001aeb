"""Two policies on the same tasks: the difference of their success, task by task, is surer than the two shares are."""

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
    """How much oftener `after` succeeds: task -> success, of the same two tasks or more. The interval is the normal one of the mean of the differences.

    Raises ValueError where the tasks are not the same.
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
