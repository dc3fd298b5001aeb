"""The reward as shown to people: a formula, and how far each term can move the total."""

from apps.training.reward_terms import formula, lower_title
from contract.configs.rewards import JudgeTerm, LearnedOutcomeTerm, OutcomeTerm, RewardsConfig, StepCostTerm


def test_each_term_takes_as_much_of_the_bar_as_it_can_move_the_total():
    terms = (OutcomeTerm(), StepCostTerm(weight=0.2), LearnedOutcomeTerm(policy="x", weight=0.4))
    parts = formula(RewardsConfig(terms=terms))
    assert [(part.kind, part.weight, part.low, part.high) for part in parts] == [
        ("outcome", "1", "−1", "1"),
        ("environment", "0.2", "−0.2", "0"),
        ("learned", "0.4", "−0.4", "0.4"),
    ]
    # Success moves it by 1, the steps by 0.2 · (0 − −1), the reward model by 0.4 · (1 − −1): 2 in all.
    assert [(part.start, part.width) for part in parts] == [(0, 50), (50, 10), (60, 40)]


def test_a_term_that_is_only_logged_takes_nothing_of_it():
    parts = formula(RewardsConfig(terms=(OutcomeTerm(), JudgeTerm(policy="x", weight=0, name="strict"))))
    assert [(part.text, part.width, part.is_logged_only) for part in parts] == [
        ("environment outcome", 100, False),
        ("strict", 0, True),
    ]
    assert formula(RewardsConfig(terms=(OutcomeTerm(weight=0),)))[0].width == 0


def test_an_outcome_measured_by_success_is_never_below_zero():
    [part] = formula(RewardsConfig(terms=(OutcomeTerm(measure="success", weight=2.0),)))
    assert (part.low, part.high, part.width) == ("0", "2", 100)


def test_a_title_within_a_sentence_keeps_its_capitals_where_they_are_a_name():
    assert [lower_title(title) for title in ("Step cost", "LLM judge")] == ["step cost", "LLM judge"]
