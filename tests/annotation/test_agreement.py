import pytest

from apps.annotation.agreement import _alpha, agreement


def test_alpha_is_that_of_krippendorffs_worked_example():
    # Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: 4 observers, 12 units, 5 values.
    units = [
        *([1, 1, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4]),
        *([4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [5, 5, 5], [1, 1], [3]),
    ]
    assert _alpha(units, range(1, 6), "nominal").value == pytest.approx(0.743, abs=5e-4)
    assert _alpha(units, range(1, 6), "ordinal").value == pytest.approx(0.815, abs=5e-4)


def test_raw_agreement_is_the_chance_that_two_judgements_of_an_item_agree():
    # +,+ agree: 1; +,+,− : one of three pairs agrees: 1/3. Their mean is 2/3. The single judgement says nothing.
    found = agreement([[3, 1], [2, 2, -1], [3]])
    assert found.raw.value == pytest.approx(2 / 3)
    assert (found.raw.items, found.raw.judgements) == (2, 5)


def test_opposite_judgements_agree_less_than_chance():
    assert agreement([[3, -3], [-3, 3]]).ordinal.value < 0


def test_nearly_the_same_grade_is_nearly_agreement():
    found = agreement([[3, 2], [-3, -2], [1, 2], [-1, -2]])
    assert found.nominal.value == 1.0
    assert 0.5 < found.ordinal.value < 1.0


def test_without_a_second_judgement_agreement_is_undefined():
    found = agreement([[1], [2]])
    assert (found.raw.value, found.raw.undefined_because) == (None, "no item has two judgements yet")


def test_where_all_say_the_same_alpha_is_undefined():
    found = agreement([[2, 2], [2, 2]])
    assert found.raw.value == 1.0
    assert found.nominal.value is None
    assert "every judgement is the same" in found.nominal.undefined_because
