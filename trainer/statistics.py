"""Statistics for reports."""

from math import sqrt
from typing import NamedTuple


class Proportion(NamedTuple):
    """A proportion with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


def proportion(successes: int, n: int, z: float = 1.959964) -> Proportion:
    """The proportion of successes and its Wilson score interval (Wilson, 1927); 0 to 1 if n is 0."""
    if n == 0:
        return Proportion(0.0, 0.0, 1.0, 0)
    share = successes / n
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Proportion(round(share, 4), round(max(0.0, center - half), 4), round(min(1.0, center + half), 4), n)
