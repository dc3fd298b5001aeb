import pytest

from apps.common.proportions import wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"), [(81, 263, 0.2553, 0.3662), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0)]
)
def test_intervals_are_those_in_the_literature(successes, trials, low, high):
    """Newcombe (1998), Statistics in Medicine 17; the third mirrors the second."""
    assert [round(bound, 4) for bound in wilson(successes, trials)] == [low, high]
