"""Judgments from columns whose values have been given meanings."""

import json

import pytest

from apps.annotation.kinds import PAIRWISE, RATING, STEPS
from apps.annotation.kinds.answers import Choice, InspectionAnswer, Label, Scores
from apps.annotation.kinds.meanings import Column, Meanings


def walk(ending, first_error, values):
    """For each step: its label, and whether it's implied by the first error."""
    return InspectionAnswer(ending, first_error, tuple(Label(index, *value) for index, value in enumerate(values)))


def meanings(kind, *columns, who=""):
    return Meanings(kind=kind, columns=columns, who=who)


def test_each_of_several_columns_is_an_annotator_of_its_own():
    means = {"0": "0", "1": "2", "2": "-2"}
    file_meanings = meanings("pairwise", *(Column(f"annotator{n}", means, is_somebody=True) for n in (1, 2, 3)))
    answers = PAIRWISE.imported(file_meanings, {"annotator1": 2, "annotator2": 1, "annotator3": 0}, ())
    assert answers == {"annotator1": Choice(-2), "annotator2": Choice(2), "annotator3": Choice(0)}


def test_a_value_without_a_meaning_and_a_missing_one_say_nothing():
    file_meanings = meanings("pairwise", Column("winner", {'"model_a"': "3"}))
    assert [PAIRWISE.imported(file_meanings, info, ()) for info in ({"winner": "model_b"}, {"winner": None}, {})] == [
        {},
        {},
        {},
    ]


def test_a_number_is_not_the_text_of_it_nor_true():
    file_meanings = meanings("rating", Column("label", {"1": "1"}))
    assert [RATING.imported(file_meanings, {"label": value}, ()) for value in (1, "1", True)] == [
        {"": Scores(thumb=1)},
        {},
        {},
    ]


def test_another_column_names_who_judged():
    file_meanings = meanings("pairwise", Column("winner", {'"a"': "1", '"both"': "both_bad"}), who="judge")
    assert PAIRWISE.imported(file_meanings, {"winner": "a", "judge": "expert 4"}, ()) == {"expert 4": Choice(1)}
    assert PAIRWISE.imported(file_meanings, {"winner": "both", "judge": None}, ()) == {"": Choice(0, both_bad=True)}


def test_of_two_columns_of_one_annotator_the_first_that_says_something_counts():
    file_meanings = meanings(
        "pairwise", Column("won_a", {"1": "2"}), Column("won_b", {"1": "-2"}), Column("tied", {"1": "0"})
    )
    assert PAIRWISE.imported(file_meanings, {"won_a": 0, "won_b": 1, "tied": 0}, ()) == {"": Choice(-2)}


@pytest.mark.parametrize(
    ("first", "mistake", "expected"),
    [
        (0, 0, walk("found_error", 0, [(-1, False), (-1, True), (-1, True)])),
        (0, 1, walk("found_error", 1, [(1, True), (-1, False), (-1, True)])),
        (1, 3, walk("found_error", 2, [(1, True), (1, True), (-1, False)])),
        (0, -1, walk("solved", None, [(1, True), (1, True), (1, True)])),
        (1, 0, None),
        (0, 3, None),
        (0, None, None),
        (0, True, None),
    ],
)
def test_a_first_wrong_step_fills_the_others_in(first, mistake, expected):
    file_meanings = meanings("steps", Column("mistake", {}, first=first))
    assert STEPS.imported(file_meanings, {"mistake": mistake}, [{}, {}, {}]) == ({"": expected} if expected else {})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([True, True], walk("solved", None, [(1, False), (1, False)])),
        ([True, False, True], walk("found_error", 1, [(1, False), (-1, False), (1, False)])),
        ([True, False, None], walk("found_error", 1, [(1, False), (-1, False), (-1, True)])),
        ([True, None], None),
        ([None, False], None),
        ([], None),
    ],
)
def test_labels_of_steps_say_where_the_first_error_is(labels, expected):
    file_meanings = meanings("steps", Column("label", {"true": "1", "false": "-1"}, of_steps=True))
    steps = [{} if value is None else {"label": value} for value in labels]
    assert STEPS.imported(file_meanings, {}, steps) == ({"": expected} if expected else {})


@pytest.mark.parametrize(
    ("value", "sides", "expected"),
    [
        ("model_a", ("a", "b"), "2"),
        ("B", ("A", "B"), "-2"),
        ("chosen", ("chosen", "rejected"), "2"),
        ("tie (bothbad)", ("a", "b"), "both_bad"),
        ("Tie", ("a", "b"), "0"),
        ("response_1", ("1", "2"), "2"),
        ("1", ("1", "2"), ""),
        (1, ("1", "2"), ""),
        (True, ("a", "b"), ""),
        ("good", ("a", "b"), ""),
    ],
)
def test_only_what_cannot_be_mistaken_is_suggested(value, sides, expected):
    assert PAIRWISE.suggested(value, sides) == expected


def test_meanings_are_kept_as_they_are():
    file_meanings = meanings("steps", Column("a", {"1": "-1"}, is_somebody=True), Column("b", {}, first=1), who="judge")
    assert Meanings.from_json(json.loads(json.dumps(file_meanings.to_json()))) == file_meanings
