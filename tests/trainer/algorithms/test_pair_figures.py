"""The report's figures on held-out pairs, for pairs with known results."""

import pytest

from trainer.algorithms.pair_figures import Ranked, calibration, correlation, length_bias, pair_figures, position_bias

LOG_3 = 1.0986123  # σ(log 3) = 0.75


def pair(difference: float, *, longer: bool = True, left: float | None = None, soft: float = 1.0) -> Ranked:
    lengths = (20, 10) if longer else (10, 20)
    return Ranked(difference, 0.0, *lengths, soft_label=soft, shown_left=left)


def test_a_model_that_is_right_as_often_as_it_says_is_calibrated():
    honest = [pair(LOG_3)] * 3 + [pair(-LOG_3)]
    assert calibration(honest) == {
        "ece": 0.0,
        "bins": [{"low": 0.75, "high": 0.8, "n": 4, "confidence": 0.75, "accuracy": 0.75}],
    }


def test_an_overconfident_model_misses_by_its_confidence():
    sure = [pair(500.0), pair(-500.0)]
    curve = calibration(sure)
    assert curve["ece"] == 0.5  # certain, and right half the time
    assert [point["n"] for point in curve["bins"]] == [2]


def test_what_annotators_are_unsure_of_counts_by_so_much():
    assert calibration([pair(LOG_3, soft=0.75)])["ece"] == 0.0


def test_a_model_of_length_alone_is_found_out():
    pairs = [Ranked(20.0, 10.0, 20, 10)] * 6 + [Ranked(10.0, 20.0, 10, 20)] * 4
    bias = length_bias(pairs)
    assert bias["correlation"] == 1.0
    assert bias["model_prefers_longer"]["value"] == 1.0
    assert bias["annotators_prefer_longer"]["value"] == 0.6
    assert (bias["accuracy_where_longer_is_better"]["value"], bias["accuracy_where_shorter_is_better"]["value"]) == (
        1.0,
        0.0,
    )


def test_labels_that_lean_to_the_left_show_in_accuracy_by_side():
    pairs = [pair(1.0, left=1.0)] * 3 + [pair(-1.0, left=0.0)] * 2 + [pair(1.0, left=0.5), pair(1.0)]
    bias = position_bias(pairs)
    assert (bias["chosen_was_left"]["value"], bias["chosen_was_left"]["n"]) == (0.6, 5)
    assert bias["accuracy_where_left_was_chosen"]["value"] == 1.0
    assert bias["accuracy_where_right_was_chosen"]["value"] == 0.0


def test_nothing_held_out_gives_empty_figures():
    figures = pair_figures([])
    assert (figures["held_out_accuracy"]["n"], figures["calibration"]["ece"]) == (0, None)


@pytest.mark.parametrize(("ys", "expected"), [([1, 2, 3], 1.0), ([3, 2, 1], -1.0), ([5, 5, 5], None)])
def test_correlation(ys: list[float], expected: float | None):
    assert correlation([1, 2, 3], ys) == expected
