"""Two policies are compared task by task."""

import pytest

from bench.learning.paired import difference


def test_what_both_do_or_fail_adds_certainty_not_difference() -> None:
    """Of four tasks one is won: the differences 1, 0, 0, 0 have mean 0.25 and standard deviation 0.5, so the interval is 0.25 ± 1.96 × 0.5 / 2."""
    before = {"a": False, "b": True, "c": True, "d": False}
    after = {"d": False, "c": True, "b": True, "a": True}
    assert difference(before, after) == (0.25, pytest.approx(-0.24), pytest.approx(0.74), 4)
    assert difference(after, before).value == -0.25


def test_policies_that_played_other_tasks_are_not_compared() -> None:
    with pytest.raises(ValueError, match=r"same tasks; 'b' and 1 others had one side only"):
        difference({"a": True, "b": True}, {"a": True, "c": True})
