"""How sure a share of independent trials is. Pure."""

from math import sqrt
from typing import NamedTuple

Z95 = 1.959964
"""The standard normal quantile of a two-sided 95 % interval."""


class Bounds(NamedTuple):
    low: float
    high: float


def wilson(successes: int, trials: int, *, z: float = Z95) -> Bounds:
    """The Wilson score interval (Wilson, 1927): it stays within 0 and 1 and holds for few trials, of which there is one at least."""
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return Bounds(max(0.0, centre - half), min(1.0, centre + half))
