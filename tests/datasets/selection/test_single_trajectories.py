"""Decisions from judgments of single trajectories, without a database."""

from typing import Any
from uuid import UUID

import pytest

from apps.datasets.recipe import BadRecipe, Recipe, check_kinds
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.single_trajectories import decide_trajectory
from apps.datasets.selection.trajectory_votes import TrajectoryVote, counting_votes, latest_of_each

QUEUE = "11111111-1111-1111-1111-111111111111"
BETTER = (1, b'{"role":"assistant","content":"better"}', None)


def vote(number: int, opinion: int = 1, *, by: int | None = None, **fields: Any) -> TrajectoryVote:
    values = {"kind": "steps", "first_error": None, **fields}
    return TrajectoryVote(UUID(int=number), UUID(int=by or number), opinion=opinion, **values)


def recipe(row_type: str, **rules: Any) -> Recipe:
    return Recipe.from_json({"queues": [QUEUE], "row_type": row_type, **rules})


def test_step_labels_are_means_and_the_first_error_needs_more_than_half():
    votes = [
        vote(1, -1, first_error=1, labels={0: 1, 1: -1}),
        vote(2, -1, first_error=1, labels={0: 0, 1: -1}),
        vote(3, first_error=-1, labels={0: 1, 1: 1, 2: 1}),
    ]
    [verdict] = decide_trajectory(votes, recipe("steps"), steps=4).verdicts
    assert verdict.metadata == {"step_labels": [0.666667, -0.333333, 1, None], "first_error": 1}
    [undecided] = decide_trajectory(votes[1:], recipe("steps"), steps=4).verdicts
    assert undecided.metadata["first_error"] is None


def test_each_judgment_can_be_a_row_of_its_own_and_they_share_the_weight():
    votes = [vote(1, first_error=-1), vote(2, -1, first_error=0, labels={0: -1})]
    verdicts = decide_trajectory(votes, recipe("steps", judgments="each"), steps=1).verdicts
    assert [(verdict.weight, verdict.metadata["first_error"]) for verdict in verdicts] == [(0.5, -1), (0.5, 0)]


def test_who_gave_up_and_labeled_nothing_makes_no_steps():
    assert decide_trajectory([vote(1, 0)], recipe("steps"), steps=3) == ([], [Drop.NO_LABELS])


@pytest.mark.parametrize(
    ("opinions", "rules", "label", "weight", "drop"),
    [
        ([1, 1, -1], {}, True, 0.333333, None),
        ([-1], {}, False, 1.0, None),
        ([1, -1], {}, None, None, Drop.NO_MAJORITY),
        ([1, 1, -1], {"minimum_margin": 2}, None, None, Drop.NO_MAJORITY),
        ([0, 0], {}, None, None, Drop.NO_OPINION),
        ([1, 0], {}, True, 0.5, None),
    ],
)
def test_a_run_is_desirable_by_majority(opinions: list[int], rules: Any, label: Any, weight: Any, drop: Any):
    votes = [vote(number, opinion) for number, opinion in enumerate(opinions, start=1)]
    decided = decide_trajectory(votes, recipe("unpaired", **rules), steps=2)
    assert [(verdict.metadata["label"], verdict.weight) for verdict in decided.verdicts] == (
        [] if drop else [(label, weight)]
    )
    assert decided.dropped == ([drop] if drop else [])


@pytest.mark.parametrize("row_type", ["unpaired", "demonstrations"])
def test_the_smallest_lead_is_asked_of_majorities_only(row_type: str):
    votes = [vote(1, 1), vote(2, 1)]
    rules = recipe(row_type, judgments="each", minimum_margin=2)
    assert len(decide_trajectory(votes, rules, steps=1).verdicts) == 2


def test_an_accepted_run_is_a_demonstration_without_its_bad_turns():
    votes = [vote(1, labels={0: 1, 1: -1}), vote(2, labels={1: 0})]
    [verdict] = decide_trajectory(votes, recipe("demonstrations"), steps=3).verdicts
    assert verdict.metadata == {"train_turns": [True, False, True], "origin": "accepted"}


def test_a_correction_ends_a_demonstration_and_only_its_author_stands_behind_it():
    votes = [vote(1, -1, first_error=1, labels={0: -1, 1: -1}, corrections=(BETTER,)), vote(2, -1)]
    [verdict] = decide_trajectory(votes, recipe("demonstrations"), steps=3).verdicts
    assert verdict.metadata == {"train_turns": [False, True], "origin": "corrected"}
    assert (verdict.correction, verdict.votes) == (BETTER, (votes[0],))
    assert decide_trajectory([vote(3, -1)], recipe("demonstrations"), steps=3) == ([], [Drop.NOT_ACCEPTED])


def test_between_the_first_error_and_a_later_correction_only_what_was_labeled_is_learned():
    later = (4, BETTER[1], None)
    votes = [vote(1, -1, first_error=1, labels={1: -1, 3: 1}, corrections=(later,))]
    [verdict] = decide_trajectory(votes, recipe("demonstrations"), steps=5).verdicts
    assert verdict.metadata["train_turns"] == [True, False, False, True, True]


def test_every_correction_is_a_step_preference():
    later = (2, BETTER[1], UUID(int=9))
    decided = decide_trajectory([vote(1, corrections=(BETTER, later)), vote(2)], recipe("step_preferences"), steps=3)
    assert [(verdict.metadata["step"], verdict.correction) for verdict in decided.verdicts] == [(1, BETTER), (2, later)]
    assert decide_trajectory([vote(2)], recipe("step_preferences"), steps=3).dropped == [Drop.NO_CORRECTION]


def test_of_an_annotators_judgments_of_a_kind_the_newest_counts():
    votes = [vote(2, -1, by=7), vote(1, 1, by=7), vote(3, 1, by=7, kind="rating")]
    assert [vote.judgment.int for vote in latest_of_each(votes)] == [2, 3]


def test_what_a_reviewer_upheld_stands_alone():
    votes = [vote(1, 1), vote(2, -1), vote(3, 1)]
    upheld = UUID(int=2)
    assert counting_votes([(vote, None) for vote in votes]) == votes
    assert counting_votes([(votes[0], None), (votes[1], upheld), (votes[2], upheld)]) == [votes[1]]


def test_an_annotator_whose_judgments_were_upheld_in_two_queues_counts_once():
    votes = [vote(1, 1, by=7), vote(2, -1, by=7), vote(3, 1, by=8)]
    assert counting_votes([(vote, vote.judgment) for vote in votes]) == votes[1:]


def test_what_a_reviewer_overruled_counts_for_nothing_even_where_the_upheld_author_is_left_out():
    elsewhere, overruled = vote(1), vote(3, -1)
    left_out = UUID(int=2)
    assert counting_votes([(elsewhere, None), (overruled, left_out)]) == [elsewhere]
    assert decide_trajectory(counting_votes([(overruled, left_out)]), recipe("steps"), steps=2) == (
        [],
        [Drop.OVERRULED],
    )


def test_queues_of_another_kind_are_refused():
    check_kinds(recipe("step_preferences"), ["steps", "pairwise"])
    with pytest.raises(
        BadRecipe, match="1 of the queues can't make such rows, which come from queues where people “label the steps"
    ):
        check_kinds(recipe("steps"), ["steps", "pairwise"])
