"""Confidence intervals and tests of proportions. Pure."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from scipy.special import bdtr, chdtrc  # every process would take longer to start with scipy.stats

Z95 = 1.959964
"""The standard normal quantile of a two-sided 95 % interval."""


class Bounds(NamedTuple):
    low: float
    high: float


def wilson(successes: float, trials: int, *, z: float = Z95) -> Bounds:
    """The Wilson score interval (Wilson, 1927): it stays within 0 and 1 and is valid for few trials (at least one)."""
    share = successes / trials
    center = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return Bounds(max(0.0, center - half), min(1.0, center + half))


def paired(differences: Sequence[float], *, z: float = Z95) -> Bounds:
    """Confidence interval of the mean paired difference between two proportions (at least one trial), each difference from −1 to 1.

    Agresti and Min (2005): half a trial is added to each of the four outcomes, so that it's valid for few trials. Repeated trials
    may have fractional differences.
    """
    n, total, squares = len(differences), sum(differences), sum(difference * difference for difference in differences)
    center = total / (n + 2)
    half = z * sqrt(squares + 1 - total * total / (n + 2)) / (n + 2)
    return Bounds(max(-1.0, center - half), min(1.0, center + half))


def mismatch(counts: Sequence[int], shares: Sequence[float]) -> float | None:
    """The p-value of counts given expected shares, which add up to 1: Pearson's χ² test for sample ratio mismatch.

    None if there is nothing to compare, or any expected count is below five, where χ² is a poor approximation.
    """
    total = sum(counts)
    expected = [total * share for share in shares]
    if len(counts) < 2 or min(expected) < 5:
        return None
    statistic = sum((count - mean) ** 2 / mean for count, mean in zip(counts, expected, strict=True))
    return float(chdtrc(len(counts) - 1, statistic))


def sign_test(successes: int, trials: int) -> float:
    """The p-value of a share of successes that differs from ½: the exact two-sided binomial test (at least one trial)."""
    return min(1.0, 2 * float(bdtr(min(successes, trials - successes), trials, 0.5)))
