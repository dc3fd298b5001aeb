"""The ends of the bands around curves."""

import pytest

from apps.training.spreads import Ends, band_of, ends_of


def test_a_mean_has_a_standard_deviation_on_either_side():
    assert ends_of("reward", {"reward": 0.5, "reward_std": 0.25}) == Ends(0.25, 0.75)
    assert ends_of("rewards/rm/mean", {"rewards/rm/mean": 0.5, "rewards/rm/std": 0.5}) == Ends(0.0, 1.0)
    assert ends_of("reward", {"reward": None, "reward_std": 0.25}) == Ends(None, None)
    assert ends_of("loss", {"loss": 0.5}) is None


def test_a_mean_length_goes_from_the_shortest_to_the_longest():
    values = {"completions/mean_length": 40.0, "completions/min_length": 10.0, "completions/max_length": 90.0}
    assert ends_of("completions/mean_length", values) == Ends(10.0, 90.0)


def test_a_share_of_counted_rollouts_has_an_interval():
    low, high = ends_of("eval/success", {"eval/success": 0.5, "eval/rollouts_scored": 10.0})
    # Wilson: (0.5 + z²/20 ± z·√(0.25/10 + z²/400)) / (1 + z²/10) with z = 1.96
    assert (low, high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    assert band_of("eval/success", {"eval/success", "eval/rollouts_scored"}) == "95 % interval"
    assert band_of("eval/success", {"eval/success"}) == ""
    assert ends_of("success", {"success": 0.5, "rollouts_scored": None}) is None


@pytest.mark.parametrize(
    ("value", "trials"),
    [(None, 10.0), (-0.1, 10.0), (1.1, 10.0), (1e308, 10.0), (0.5, -3.0), (0.5, 0.0), (0.5, 0.4), (0.5, 1e308)],
)
def test_what_is_no_share_of_a_count_has_no_interval(value: float | None, trials: float) -> None:
    assert ends_of("success", {"success": value, "rollouts_scored": trials}) is None
