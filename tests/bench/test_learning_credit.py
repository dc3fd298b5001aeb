"""Two credit assignments are compared by paired curves."""

import pytest

from bench.learning.credit import ROLLOUTS_A_STEP, compared, rollouts_to


def test_pairs_are_compared_by_their_differences() -> None:
    """For differences of 0.1, 0.2, and 0.3, the t-interval is 0.2 ± 4.303 × 0.1 / √3, regardless of the level of each pair."""
    without = [[0.2, 0.1, 0.3], [0.2, 0.3, 0.5], [0.2, 0.5, 0.7]]
    with_it = [[0.2, 0.2, 0.4], [0.2, 0.5, 0.7], [0.2, 0.8, 1.0]]
    comparison = compared(without, with_it)
    assert comparison["before"] == pytest.approx(0.4)
    assert comparison["after"] == pytest.approx(0.6)
    assert (comparison["low"], comparison["high"]) == (
        pytest.approx(0.6 - 0.2484, abs=1e-4),
        pytest.approx(0.6 + 0.2484, abs=1e-4),
    )
    # The mean curves are 0.2, 0.3, 0.5 and 0.2, 0.5, 0.7: half of the way from 0.2 to 0.7 is 0.45.
    assert comparison["more"]["level"] == 0.45
    assert comparison["more"]["rollouts_to_level"] == {"trajectory": 2 * ROLLOUTS_A_STEP, "turn": ROLLOUTS_A_STEP}


def test_a_curve_that_never_gets_there_has_no_number() -> None:
    assert rollouts_to(0.5, [0.2, 0.4, 0.3]) is None
    assert rollouts_to(0.2, [0.2, 0.4]) == 0
