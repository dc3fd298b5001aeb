"""Grades as the desk displays them."""

import pytest

from apps.annotation.kinds.forms import question_fields
from apps.annotation.kinds.pairwise import scale
from apps.annotation.kinds.questions import PairwiseAsks, comparison


@pytest.mark.parametrize(
    ("points", "drawn", "read_out"),
    [
        (3, "← = →", ["left better", "the same", "right better"]),
        (
            5,
            "←← ← = → →→",
            ["left much better", "left better", "the same", "right better", "right much better"],
        ),
    ],
)
def test_an_aspects_arrows_point_to_the_better_side(points, drawn, read_out):
    asks = PairwiseAsks((comparison("safety", "Safety", points),))
    (row,) = question_fields(asks, {"aspect.safety": 1})
    options = row.options
    assert " ".join(option.label for option in options) == drawn
    assert [option.hint for option in options] == read_out
    assert [option.value for option in options if option.checked] == ["1"]  # left better


def test_which_trajectory_is_better_is_drawn_with_the_same_arrows():
    drawn = [(grade.key, grade.arrows, grade.title) for _, grades in scale({"answer": "-2"}) for grade in grades]
    assert drawn == [
        ("1", "←←←", "Left is much better"),
        ("2", "←←", "Left is clearly better"),
        ("3", "←", "Left is slightly better"),
        ("4", "=", "Tie"),
        ("0", "", "Both are bad"),
        ("5", "→", "Right is slightly better"),
        ("6", "→→", "Right is clearly better"),
        ("7", "→→→", "Right is much better"),
    ]
    assert [grade.key for _, grades in scale({"answer": "-2"}) for grade in grades if grade.checked] == ["6"]
