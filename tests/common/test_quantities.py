from datetime import UTC, datetime, timedelta

import pytest

from apps.common import quantities

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0.004, "4 ms"),
        (0.43, "0.4 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (3599.9, "1 h"),
        (100_800, "1 d 4 h"),
    ],
)
def test_durations_use_their_two_largest_units(seconds, words):
    assert quantities.duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"), [(512, "512 B"), (1400, "1.4 kB"), (999_700, "1.0 MB"), (3.2e9, "3.2 GB"), (5e13, "50 TB")]
)
def test_sizes_are_in_thousands(count, words):
    assert quantities.size(count) == words


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0"), (99_999, "99,999"), (204_117, "204 k"), (999_900, "1.0 M"), (4_510_000, "4.5 M")]
)
def test_counts_are_exact_while_short(number, words):
    assert quantities.count(number) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.618, "62 %"),
        (0.004, "0.4 %"),
        (0.9996, ">99.9 %"),
        (0.0001, "<0.1 %"),
        (0.996, "99.6 %"),
    ],
)
def test_a_share_is_nothing_or_all_only_if_it_is(share, words):
    assert quantities.percent(share) == words


@pytest.mark.parametrize(
    ("number", "words"), [(0.01234, "0.0123"), (12.34, "12.3"), (1234.5, "1,234"), (5e-6, "5.0e-6")]
)
def test_measurements_have_three_digits(number, words):
    assert quantities.figure(number) == words


@pytest.mark.parametrize(("number", "words"), [(0.575, "0.57"), (-0.62, "−0.62"), (-0.001, "0.00"), (None, "–")])
def test_coefficients_have_two_digits_and_a_real_minus(number, words):
    assert quantities.decimal(number) == words


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (timedelta(seconds=20), "now"),
        (timedelta(minutes=5), "5 min ago"),
        (timedelta(hours=-2), "in 2 h"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(days=20), "13 Feb"),
        (timedelta(days=400), "29 Jan 2025"),
    ],
)
def test_times_are_as_people_say_them(gap, words):
    assert quantities.relative(NOON - gap, NOON) == words


def test_a_curve_fills_its_box_with_low_values_at_the_bottom():
    assert quantities.polyline([0, 2, 1], width=10, height=10) == "0.0,9.0 5.0,1.0 10.0,5.0"


def test_a_flat_curve_is_drawn():
    assert quantities.polyline([3, 3], width=10, height=10) == "0.0,9.0 10.0,9.0"


@pytest.mark.parametrize("write", ["duration", "size", "count", "percent", "decimal", "figure"])
@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_what_is_no_number_breaks_no_page(write, number):
    assert getattr(quantities, write)(float(number))
