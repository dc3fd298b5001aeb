import krippendorff
import numpy as np
import pytest

from apps.annotation.quality.agreement import SIDES, Patterns, agreement, alpha, fleiss, raw
from apps.annotation.quality.kappa import cohen, disagreement, kappa_of_table

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: 4 observers, 12 units, 5 values.
KRIPPENDORFF = [
    *([1, 1, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4]),
    *([4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [5, 5, 5], [1, 1], [3]),
]


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_is_that_of_krippendorffs_worked_example(level, published):
    estimate = alpha(Patterns.of(KRIPPENDORFF, range(1, 6)), level)
    assert estimate.value == pytest.approx(published, abs=5e-4)
    assert (estimate.items, estimate.judgments) == (11, 40)  # the unit with one value says nothing


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_is_that_of_an_independent_implementation(level):
    rng = np.random.default_rng(7)
    items = [list(rng.integers(-3, 4, size=rng.integers(1, 6))) for _ in range(200)]
    counts = np.array([[item.count(value) for value in range(-3, 4)] for item in items])
    theirs = krippendorff.alpha(value_counts=counts, value_domain=list(range(-3, 4)), level_of_measurement=level)
    assert alpha(Patterns.of(items, range(-3, 4)), level).value == pytest.approx(theirs, abs=1e-12)


def test_fleiss_kappa_is_that_of_the_worked_example():
    # Fleiss (1971) as worked in full on Wikipedia, "Fleiss' kappa": 10 subjects, 14 raters, 5 categories; kappa 0.210.
    rows = [
        *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
        *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
    ]
    items = [[value for value, count in enumerate(row) for _ in range(count)] for row in rows]
    estimate = fleiss(Patterns.of(items, range(5)))
    assert estimate.value == pytest.approx(0.210, abs=5e-4)
    assert (estimate.items, estimate.judgments) == (10, 140)


def test_fleiss_kappa_is_of_the_items_that_the_commonest_number_of_people_judged():
    estimate = fleiss(Patterns.of([[1, 1], [-1, 1], [-1, -1], [1, 1, 1]], range(-1, 2)))
    # Agreement 2/3; values +1 and −1 three times each, so chance 1/2: (2/3 − 1/2) / (1/2) = 1/3.
    assert estimate.value == pytest.approx(1 / 3)
    assert (estimate.items, estimate.judgments) == (3, 6)


# Cohen, "Weighted kappa" (Psychological Bulletin 70, 1968), table 1: two psychiatrists, 200 patients, three diagnoses.
COHEN = 200 * np.array([[0.44, 0.07, 0.09], [0.05, 0.20, 0.05], [0.01, 0.03, 0.06]])


def test_cohens_kappa_is_that_of_his_worked_example():
    assert kappa_of_table(COHEN, disagreement(3, "none")).value == pytest.approx(0.492, abs=5e-4)
    weights = np.array([[0.0, 1, 3], [1, 0, 6], [3, 6, 0]])
    assert kappa_of_table(COHEN, weights).value == pytest.approx(0.348, abs=5e-4)


@pytest.mark.parametrize(("weighting", "published"), [("none", 0.9315), ("linear", 0.9412), ("quadratic", 0.9541)])
def test_weighted_kappas_are_those_of_the_vassarstats_example(weighting, published):
    # Lowry, VassarStats, "Kappa as a measure of concordance" (vassarstats.net/kappa.html): 100 items, three ordered values.
    first, second = [0] * 46 + [1] * 44 + [2] * 10, [0] * 50 + [1] * 40 + [2] * 10
    assert cohen(([pair] for pair in zip(first, second, strict=True)), range(3), weighting).value == pytest.approx(
        published, abs=5e-5
    )


def test_kappa_is_undefined_without_a_shared_item_and_without_variation():
    assert cohen([], range(3)).undefined_because == "they have no judged items in common"
    same = cohen([[(1, 1)]] * 20, range(3))
    assert same.value is None
    assert "every judgment is the same" in same.undefined_because


def test_raw_agreement_is_the_chance_that_two_judgments_of_an_item_agree():
    # +,+ agree: 1; +,+,− : one of three pairs agrees: 1/3. Their mean is 2/3. The single judgment says nothing.
    estimates = agreement([[3, 1], [2, 2, -1], [3]])
    assert estimates.raw.value == pytest.approx(2 / 3)
    assert (estimates.raw.items, estimates.raw.judgments) == (2, 5)
    assert estimates.raw.least == 0.0


def test_opposite_judgments_agree_less_than_chance():
    assert agreement([[3, -3], [-3, 3]]).ordinal.value < 0


def test_nearly_the_same_grade_is_nearly_agreement():
    estimates = agreement([[3, 2], [-3, -2], [1, 2], [-1, -2]])
    assert estimates.nominal.value == 1.0
    assert 0.5 < estimates.ordinal.value < 1.0
    assert 0.5 < estimates.interval.value < 1.0


def test_without_a_second_judgment_agreement_is_undefined():
    estimates = agreement([[1], [2]])
    assert (estimates.raw.value, estimates.raw.undefined_because) == (None, "no item has two judgments yet")
    assert estimates.fleiss.undefined_because == "no item has two judgments yet"


def test_where_all_say_the_same_alpha_is_undefined():
    estimates = agreement([[2, 2], [2, 2]])
    assert estimates.raw.value == 1.0
    assert estimates.nominal.value is None
    assert "every judgment is the same" in estimates.nominal.undefined_because


def test_too_few_items_have_no_interval():
    assert agreement([[1, 1]] * 8 + [[1, -1]]).raw.low is None


def test_the_interval_of_raw_agreement_is_that_of_a_share():
    # 400 items, 300 agree: standard error sqrt(.75 × .25 / 400) = 0.0217; 1.96 of them on either side.
    estimate = raw(Patterns.of([[1, 1]] * 300 + [[1, -1]] * 100, range(-1, 2)))
    assert estimate.low == pytest.approx(0.75 - 1.96 * 0.02165, abs=0.006)
    assert estimate.high == pytest.approx(0.75 + 1.96 * 0.02165, abs=0.006)


def test_the_steps_of_a_run_are_drawn_together():
    runs = [[[1, 1]] * 30] * 8 + [[[1, -1]] * 30] * 4
    steps, whole = raw(Patterns.of_parts(runs, SIDES)), raw(Patterns.of([run[0] for run in runs], SIDES))
    assert (steps.items, whole.items) == (360, 12)
    assert (steps.value, steps.low, steps.high) == pytest.approx((whole.value, whole.low, whole.high))
    few = raw(Patterns.of_parts(runs[:9], SIDES))
    assert (few.items, few.low) == (270, None)  # of nine runs, however many steps they have
    uneven = [*runs, [[1, 1, 1], [1, -1]]]
    assert fleiss(Patterns.of_parts(uneven, SIDES)).judgments == 722  # the step that three judged is left out


def test_intervals_hold_the_truth_as_often_as_they_say():
    # Two people who agree with chance 0.8 on two equally likely values: kappa = (0.8 − 0.5) / 0.5 = 0.6.
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        first = rng.integers(0, 2, 150)
        second = np.where(rng.random(150) < 0.8, first, 1 - first)
        kappa = cohen(([pair] for pair in zip(first.tolist(), second.tolist(), strict=True)), range(2))
        held += kappa.low <= 0.6 <= kappa.high
    assert 0.90 <= held / 200 <= 0.99  # 0.95, within three standard errors for 200 draws


def test_a_hundred_thousand_items_take_no_longer_than_their_patterns():
    rng = np.random.default_rng(1)
    estimates = agreement(rng.integers(-3, 4, size=(100_000, 2)).tolist())
    assert abs(estimates.ordinal.value) < 0.01
    assert estimates.ordinal.high - estimates.ordinal.low < 0.02
