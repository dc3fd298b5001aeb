"""How sure a share of independent trials is. Pure."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from scipy.stats import chisquare

Z95 = 1.959964
"""The standard normal quantile of a two-sided 95 % interval."""


class Bounds(NamedTuple):
    low: float
    high: float


def wilson(successes: float, trials: int, *, z: float = Z95) -> Bounds:
    """The Wilson score interval (Wilson, 1927): it stays within 0 and 1 and holds for few trials, of which there is one at least."""
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return Bounds(max(0.0, centre - half), min(1.0, centre + half))


def paired(differences: Sequence[float], *, z: float = Z95) -> Bounds:
    """The mean of differences between two shares on the same trials, at least one, each from −1 to 1.

    Agresti and Min (2005): half a trial is added to each of the four outcomes, so that it holds for few trials. Where a trial was
    repeated, its difference may be a fraction.
    """
    n, total, squares = len(differences), sum(differences), sum(each * each for each in differences)
    centre = total / (n + 2)
    half = z * sqrt(squares + 1 - total * total / (n + 2)) / (n + 2)
    return Bounds(max(-1.0, centre - half), min(1.0, centre + half))


def mismatch(counts: Sequence[int], shares: Sequence[float]) -> float | None:
    """The probability of counts at least as far from these shares, which add up to 1: Pearson's χ² test (sample ratio mismatch).

    None where there is nothing to compare, or fewer than five are expected anywhere: then χ² is no good approximation.
    """
    total = sum(counts)
    expected = [total * share for share in shares]
    if len(counts) < 2 or min(expected) < 5:
        return None
    return float(chisquare(counts, expected).pvalue)
