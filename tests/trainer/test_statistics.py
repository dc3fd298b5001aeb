"""Confidence intervals that are also valid near 0 and 1."""

import pytest

from trainer.statistics import proportion


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Wilson's interval at 95 %, as tabulated by Newcombe (1998), table I
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_intervals_are_those_in_the_literature(successes: int, n: int, low: float, high: float):
    estimate = proportion(successes, n)
    assert (estimate.low, estimate.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert estimate.n == n


def test_nothing_seen_means_anything_is_possible():
    assert proportion(0, 0) == (0.0, 0.0, 1.0, 0)
