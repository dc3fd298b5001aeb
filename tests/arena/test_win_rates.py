"""The statistics of an A/B comparison, against published values and against simulation."""

from itertools import pairwise

import numpy as np
import pytest

from apps.arena.stopping_rule import Outcome, StoppingRule
from apps.arena.win_rates import (
    Interval,
    confidence_sequence,
    difference,
    side_bias,
    success_rate,
    tally,
    task_scores,
    with_ties,
)


def test_both_bad_is_counted_apart_from_a_tie():
    counted = tally([(3, False), (1, False), (0, False), (0, True), (-2, False)])
    assert (counted.wins, counted.ties, counted.losses, counted.both_bad) == (2, 1, 1, 1)
    assert counted.judgments == 5


def test_a_task_counts_once_however_many_people_judged_it():
    scores = task_scores(
        {
            "booked twice": {"p1": [3, 2, 1], "p2": [-1]},  # pair means 1 and 0
            "one tie": {"p3": [0]},
            "nobody yet": {"p4": []},
        }
    )
    assert scores == {"booked twice": 0.5, "one tie": 0.5}


def test_nothing_known_is_the_whole_range():
    assert confidence_sequence([]) == Interval(estimate=None, low=0.0, high=1.0, n=0)
    assert success_rate(0, 0) == Interval(estimate=None, low=0.0, high=1.0, n=0)


def test_swapping_the_sides_mirrors_the_interval():
    values = [1.0, 1.0, 0.5, 1.0, 0.0, 1.0, 1.0, 0.5, 1.0, 1.0]
    straight = confidence_sequence(values)
    mirrored = confidence_sequence([1 - value for value in values])
    assert straight.low == pytest.approx(1 - mirrored.high)
    assert straight.high == pytest.approx(1 - mirrored.low)


def test_the_interval_never_widens():
    values = (np.random.default_rng(3).random(60) < 0.7).astype(float).tolist()
    bounds = [confidence_sequence(values[:n]) for n in range(1, 61)]
    for earlier, later in pairwise(bounds):
        # The estimate itself is always inside, so only then may a bound move outwards.
        assert later.low >= earlier.low or later.low == later.estimate
        assert later.high <= earlier.high or later.high == later.estimate


def test_looking_after_every_judgment_errs_less_than_one_time_in_twenty():
    """Two equal policies, 120 tasks, a test after each from the tenth on: how often is a winner declared?"""
    generator = np.random.default_rng(7)
    trials = 200
    wrong = {"confidence sequence": 0, "Wilson at each look": 0}
    for _ in range(trials):
        values = (generator.random(120) < 0.5).astype(float)
        interval = confidence_sequence(values.tolist())  # the running intersection covers all 120 looks
        wrong["confidence sequence"] += interval.low > 0.5 or interval.high < 0.5
        looks = [success_rate(int(values[:n].sum()), n) for n in range(10, 121)]
        wrong["Wilson at each look"] += any(look.low > 0.5 or look.high < 0.5 for look in looks)
    assert wrong["confidence sequence"] / trials <= 0.05
    assert wrong["Wilson at each look"] / trials > 0.3  # this is why the usual interval isn't valid here


def test_a_clear_winner_is_found():
    interval = confidence_sequence([1.0] * 12)
    assert interval.low > 0.5
    assert StoppingRule().outcome(interval, tasks_planned=50) is Outcome.A_BETTER
    assert StoppingRule().outcome(confidence_sequence([0.0] * 12), tasks_planned=50) is Outcome.B_BETTER


def test_a_few_tasks_never_end_an_experiment():
    lucky = Interval(estimate=1.0, low=0.6, high=1.0, n=9)
    assert StoppingRule(min_tasks=10).outcome(lucky, tasks_planned=50) is Outcome.UNDECIDED


def test_an_experiment_without_a_winner_ends_when_its_tasks_do():
    even = Interval(estimate=0.5, low=0.35, high=0.65, n=50)
    assert StoppingRule().outcome(even, tasks_planned=50) is Outcome.NO_DIFFERENCE_SHOWN
    assert StoppingRule().outcome(even, tasks_planned=51) is Outcome.UNDECIDED


def test_success_rates_are_compared_on_shared_tasks_only():
    compared = difference({"t1": 1.0, "t2": 1.0, "only a": 0.0}, {"t1": 0.0, "t2": 1.0})
    assert compared.estimate == 0.5
    assert compared.n == 2


def test_side_bias_is_an_exact_test():
    # Nine left wins of ten: two-sided p = 2 * (10 + 1) / 2**10.
    bias = side_bias([(1, True)] * 9 + [(1, False)] + [(0, True)] + [(2, None), (-2, None)])
    assert (bias.left, bias.decided) == (9, 10)
    assert bias.p_value == pytest.approx(22 / 1024)


def test_values_outside_the_unit_range_are_refused():
    with pytest.raises(ValueError, match=r"expected them within 0 and 1"):
        confidence_sequence([0.5, 1.5])


def test_ties_nobody_is_asked_about_take_their_turn():
    places = {"first": 0, "second": 1, "third": 2}
    alike = [("before all", 0), ("second", 1), ("between", 2), ("after all", 3)]
    judged = {"second": {"p": [2]}}
    known = with_ties(judged, alike, places=places, all_known=False)
    assert list(known) == ["before all", "second"]
    assert task_scores(known) == {"before all": 0.5, "second": 0.75}  # its other pair is a tie
    judged |= {"third": {"p": [1]}, "first": {"p": [-1]}}
    known = with_ties(judged, alike, places=places, all_known=True)
    assert list(known) == ["before all", "second", "between", "third", "first", "after all"]
    assert list(with_ties({}, [("only", 0)], places={}, all_known=True)) == ["only"]


def test_ties_counted_in_their_turn_leave_the_interval_honest():
    """Six of ten tasks are ties; A wins nine of ten of the others. Counting all ties first would nearly always exclude the true value."""
    rng = np.random.default_rng(11)
    truth = 0.6 * 0.5 + 0.4 * 0.9
    missed = {"in turn": 0, "at the start": 0}
    for _ in range(100):
        alike, judged, places = [], {}, {}
        for task in range(120):
            if rng.random() < 0.6:
                alike.append((f"tie {task}", len(judged)))
            else:
                places[f"{task}"] = len(judged)
                judged[f"{task}"] = {"p": [1 if rng.random() < 0.9 else -1]}
        in_turn = with_ties(judged, alike, places=places, all_known=True)
        at_the_start = {task: {"p": [0]} for task, _ in alike} | judged
        for name, known in (("in turn", in_turn), ("at the start", at_the_start)):
            interval = confidence_sequence(list(task_scores(known).values()))
            missed[name] += not interval.low <= truth <= interval.high
    assert missed["in turn"] <= 5
    assert missed["at the start"] > 50
