import pytest
from scipy import stats

from apps.common.proportions import mismatch, paired, sign_test, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"), [(81, 263, 0.2553, 0.3662), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0)]
)
def test_intervals_are_those_in_the_literature(successes, trials, low, high):
    """Newcombe (1998), Statistics in Medicine 17; the third case mirrors the second."""
    assert [round(bound, 4) for bound in wilson(successes, trials)] == [low, high]


def test_a_paired_interval_is_that_of_the_literature():
    """Approval of a prime minister, asked twice of 1,600 people: 150 changed to no, 86 to yes (Agresti, 2002, table 10.1)."""
    differences = [-1.0] * 150 + [1.0] * 86 + [0.0] * 1364
    # −64 / 1602 ± 1.96 · √(237 − 64² / 1602) / 1602
    assert [round(bound, 4) for bound in paired(differences)] == [-0.0587, -0.0212]


def test_three_tasks_prove_little():
    # 2 / 5 ± 1.96 · √(3 − 4 / 5) / 5
    assert [round(bound, 3) for bound in paired([1.0, 1.0, 0.0])] == [-0.181, 0.981]


def test_counts_that_fit_their_shares_are_likely_and_others_are_not():
    assert mismatch([60, 40], [0.6, 0.4]) == 1.0
    assert mismatch([50, 50], [0.6, 0.4]) == pytest.approx(0.0412, abs=1e-4)  # χ² = 100/60 + 100/40 = 4.17, 1 degree
    assert mismatch([400, 600], [0.5, 0.5]) < 1e-9


def test_too_few_to_tell_is_no_mismatch():
    assert mismatch([3, 4], [0.5, 0.5]) is None  # 3.5 expected, which is less than 5
    assert mismatch([100], [1.0]) is None
    assert mismatch([0, 0], [0.5, 0.5]) is None


def test_tests_agree_with_those_of_scipy():
    for trials in (1, 2, 7, 60, 5000):
        for successes in {0, 1, trials // 3, trials // 2, trials}:
            assert sign_test(successes, trials) == pytest.approx(stats.binomtest(successes, trials).pvalue, rel=1e-9)
    assert mismatch([40, 70, 90], [0.25, 0.25, 0.5]) == pytest.approx(
        stats.chisquare([40, 70, 90], [50, 50, 100]).pvalue
    )
