"""From votes to rows."""

from random import Random
from uuid import UUID, uuid4

import pytest

from apps.datasets.recipe import BadRecipe, Recipe
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.pairs import beliefs
from apps.datasets.selection.votes import Belief, Vote, counted, decide

QUEUE = str(uuid4())


def recipe(**rules: object) -> Recipe:
    return Recipe.from_json({"queues": [QUEUE], **rules})


def votes(*strengths: int, both_bad: int = 0) -> list[Vote]:
    grades = [(strength, False) for strength in strengths] + [(0, True)] * both_bad
    return [Vote(str(UUID(int=n)), UUID(int=100 + n), strength, bad, True) for n, (strength, bad) in enumerate(grades)]


def outcome(pair_votes: list[Vote], **rules: object) -> object:
    rules_ = recipe(**rules)
    decision = decide(counted(pair_votes, rules_), rules_)
    if decision.verdicts:
        return [(v.first_won, v.strength, round(v.weight, 3)) for v in decision.verdicts]
    return decision.dropped


def test_the_majority_wins() -> None:
    assert outcome(votes(2, 1, -3)) == [(True, 1.5, 0.333)]  # (2 + 1) / 2 for it; a lead of 1 in 3 votes


def test_the_smaller_id_may_lose() -> None:
    assert outcome(votes(-2)) == [(False, 2.0, 1.0)]


def test_a_tied_vote_is_no_majority() -> None:
    assert outcome(votes(2, -2)) == [Drop.NO_MAJORITY]


def test_a_lead_can_be_too_small() -> None:
    assert outcome(votes(2, 2, -1), minimum_margin=2) == [Drop.NO_MAJORITY]


def test_a_win_can_be_too_weak() -> None:
    assert outcome(votes(1, 2), minimum_strength=2) == [Drop.WEAK]


def test_counted_ties_lower_the_weight() -> None:
    assert outcome(votes(2, 0, 0)) == [(True, 2.0, 0.333)]


def test_dropped_ties_do_not() -> None:
    assert outcome(votes(2, 0, 0), ties="drop") == [(True, 2.0, 1.0)]


def test_only_ties() -> None:
    assert outcome(votes(0, 0)) == [Drop.TIE]
    assert outcome(votes(0, both_bad=1)) == [Drop.BOTH_BAD]
    assert outcome(votes(0, 0), ties="drop") == []


def test_each_judgment_its_own_row() -> None:
    assert outcome(votes(3, -1, 0), judgments="each") == [(True, 3.0, 0.5), (False, 1.0, 0.5)]


def test_an_annotators_later_vote_on_the_pair_holds() -> None:
    first, second = votes(3, -2)
    assert outcome([second._replace(annotator=first.annotator), first]) == [(False, 2.0, 1.0)]


def labels(
    pair_votes: list[Vote], belief: Belief | None = None, **rules: object
) -> list[tuple[bool, float, float, float]]:
    """For each row: whether the first trajectory won, its weight, soft label, and label weight."""
    decision = decide(pair_votes, recipe(**rules), belief)
    return [
        (v.first_won, round(v.weight, 3), round(v.soft_label, 3), round(v.label_weight, 3)) for v in decision.verdicts
    ]


def test_the_votes_are_the_soft_label_and_ties_its_weight() -> None:
    assert labels(votes(2, 1, -3, 0)) == [
        (True, 0.25, 0.667, 0.75)
    ]  # 2 of the 3 votes that prefer a side; 3 of 4 votes prefer one


def test_belief_can_overrule_the_majority() -> None:
    believed = Belief(first=0.2, neither=0.1, second=0.7)
    assert labels(votes(2, 1, -3), believed) == [(False, 0.5, 0.778, 0.9)]  # 0.7 / 0.9
    assert decide(votes(2, 1, -3), recipe(), believed).verdicts[0].strength == 3.0


def test_a_row_can_be_too_uncertain() -> None:
    assert decide(votes(2, 1, -3), recipe(minimum_confidence=70), None).dropped == [Drop.UNSURE]  # 2 of 3 is 67 %


def test_where_neither_is_likeliest_it_is_a_tie() -> None:
    assert decide(votes(2, 0, 0), recipe(), Belief(0.3, 0.6, 0.1)).dropped == [Drop.TIE]


def test_each_judgment_carries_what_all_say_of_it() -> None:
    rows = labels(votes(3, 2, -1), Belief(0.8, 0.0, 0.2), judgments="each")
    assert rows == [(True, 0.333, 0.8, 0.333), (True, 0.333, 0.8, 0.333), (False, 0.333, 0.2, 0.333)]


@pytest.mark.parametrize("way", ["dawid_skene", "glad"])
def test_two_careful_people_are_believed_over_three_careless_ones(way: str) -> None:
    chance = Random(4)
    pairs = []
    for n in range(300):
        truth = chance.choice((1, -1))
        answers = [truth if chance.random() < right else -truth for right in (0.97, 0.97, 0.5, 0.5, 0.5)]
        pairs.append((UUID(int=n), UUID(int=1000 + n), votes(*answers), truth))
    believed = beliefs([pair[:3] for pair in pairs], way)
    right = {
        "votes": sum(
            (sum(vote.strength for vote in pair_votes) > 0) == (truth > 0) for _, _, pair_votes, truth in pairs
        ),
        way: sum((believed[a, b].first > believed[a, b].second) == (truth > 0) for a, b, _, truth in pairs),
    }
    assert right[way] > 280 > right["votes"]


def test_ties_are_the_chance_that_neither_is_better() -> None:
    pairs = [(UUID(int=n), UUID(int=100 + n), votes(2, 2, 0)) for n in range(20)]
    assert beliefs(pairs, "glad")[UUID(int=0), UUID(int=100)].neither == pytest.approx(1 / 3)
    assert beliefs([], "glad") == {}


def test_shares_have_to_add_up() -> None:
    with pytest.raises(BadRecipe, match="90 %"):
        recipe(train=70)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(BadRecipe, match="no such rule"):
        recipe(margin=1)


def test_a_recipe_survives_json() -> None:
    rules = recipe(seed=7, annotator_kinds=["rule", "person"])
    assert Recipe.from_json(rules.to_json()) == rules


@pytest.mark.parametrize(
    ("first_was_left", "shown_left"),
    [
        ([True, True, False], 2 / 3),
        ([False, False, False], 0.0),
        ([True, None, None], 1.0),  # elsewhere, sides may not be recorded
        ([False, None, True], 0.5),
        ([None, None, None], 0.5),
    ],
)
@pytest.mark.parametrize("strength", [1, -1])
def test_the_side_of_the_winner_is_taken_from_the_judgments_that_recorded_it(
    first_was_left: list[bool | None], shown_left: float, strength: int
) -> None:
    sided = [
        vote._replace(first_was_left=left) for vote, left in zip(votes(*[strength] * 3), first_was_left, strict=True)
    ]
    [verdict] = decide(sided, recipe()).verdicts
    known = any(left is not None for left in first_was_left)
    assert verdict.shown_left == pytest.approx(shown_left if strength > 0 or not known else 1 - shown_left)
