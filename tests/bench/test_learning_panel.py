"""Twelve annotators vote correctly as often as declared, and the result of their votes is known for each pair."""

from bench.learning.panel import LEFT, PANEL, RIGHT, Annotator, Judged, by_dawid_skene, by_majority, judged, share_right
from contract.trajectory import Outcome, Step, Task, Trajectory


def rollout(words: str) -> Trajectory:
    step = Step([{"role": "user", "content": "Go on."}], {"role": "assistant", "content": words})
    return Trajectory(Task("t", "Do it."), [step], outcome=Outcome(success=words == "better"))


PAIRS = [(rollout("better"), rollout("worse"))] * 400


def test_half_of_the_votes_of_who_does_not_look_are_right():
    assert Annotator(0.9).right == 0.9
    assert Annotator(0.9, careless=0.4).right == Annotator(0.9, leaning=0.4).right == 0.6 * 0.9 + 0.4 / 2
    assert len(PANEL) == 12
    assert 0.6 <= min(annotator.right for annotator in PANEL) < max(annotator.right for annotator in PANEL) == 0.95


def test_one_vote_a_pair_is_right_as_often_as_the_panel_is_and_the_majority_of_three_is_oftener():
    once, thrice = (judged(PAIRS, overlap=overlap, seed=0) for overlap in (1, 3))
    assert all(len({who for who, _ in pair.votes}) == 3 for pair in thrice)
    one, three = share_right(once, by_majority(once)), share_right(thrice, by_majority(thrice))
    assert 0.74 <= one <= 0.86  # 79.9 % of 400, give or take three standard deviations
    assert 0.85 <= three <= 0.95  # 89.7 %
    assert judged(PAIRS, overlap=3, seed=0) == thrice
    assert judged(PAIRS[:5], overlap=3, seed=0) == thrice[:5]


def test_who_leans_to_the_left_votes_left_more_often():
    lefts = [
        sum(side == LEFT for pair in judged(PAIRS, overlap=12, seed=0) for who, side in pair.votes if who == number)
        for number in (0, 11)
    ]
    assert lefts[0] < 240 < 280 < lefts[1]  # a half of 400; 0.6 + 0.4 / 2 of them


def test_weights_put_more_of_the_sum_on_right_labels_and_say_nothing_of_lone_votes():
    thrice = judged(PAIRS, overlap=3, seed=0)
    assert share_right(thrice, by_dawid_skene(thrice)) > share_right(thrice, by_majority(thrice)) + 0.02
    once = judged(PAIRS, overlap=1, seed=0)
    assert len({round(weight, 6) for _, weight in by_dawid_skene(once)}) == 1


def test_a_label_for_the_worse_side_makes_a_row_the_wrong_way_round():
    better, worse = PAIRS[0]
    judged_pair = Judged(better, worse, RIGHT, ((0, LEFT),))
    assert judged_pair.row(RIGHT, 1.0)["chosen"][-1]["content"] == "better"
    wrong = judged_pair.row(LEFT, 0.25)
    assert (wrong["chosen"][-1]["content"], wrong["weight"]) == ("worse", 0.25)
    assert share_right([judged_pair, judged_pair], [(RIGHT, 0.75), (LEFT, 0.25)]) == 0.75
