"""The rules that judge in the demo workspace."""

from apps.demo.rule_annotators import TrajectoryFacts, clean_and_short, no_failed_call, outcome_first

GOOD = TrajectoryFacts(success=True, reward=1.0, steps=5, errors=0)
SHORT = TrajectoryFacts(success=True, reward=1.0, steps=3, errors=1)
BAD = TrajectoryFacts(success=False, reward=0.0, steps=2, errors=0)
HALF = TrajectoryFacts(success=False, reward=0.5, steps=4, errors=0)


def test_success_decides():
    assert outcome_first(GOOD, BAD).strength == 3
    assert outcome_first(BAD, GOOD).strength == -3


def test_among_failures_the_one_that_got_further_is_better():
    assert outcome_first(HALF, BAD).strength == 2


def test_two_equal_failures_are_both_bad():
    answer = outcome_first(BAD, BAD)
    assert (answer.strength, answer.both_bad) == (0, True)


def test_among_successes_the_shorter_is_slightly_better():
    assert outcome_first(GOOD, SHORT).strength == -1
    assert outcome_first(GOOD, GOOD).strength == 0


def test_the_second_rule_looks_at_errors_and_length_only():
    assert clean_and_short(GOOD, SHORT).strength == 2  # fewer failed calls
    assert clean_and_short(GOOD, BAD).strength == -2  # three steps longer, though it succeeded
    assert clean_and_short(HALF, GOOD).strength == 1
    assert not clean_and_short(BAD, BAD).both_bad


def test_a_run_without_a_failed_call_is_accepted_whatever_came_of_it():
    assert no_failed_call(BAD).accepted
    assert not no_failed_call(SHORT).accepted
