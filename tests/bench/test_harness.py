"""The benchmark's arithmetic. Performance is only measured by `make bench`."""

import json
import threading

import pytest

from bench.harness import Figure, Size, at_once, percentile, table


def test_a_percentile_lies_between_the_nearest_samples() -> None:
    assert percentile([float(value) for value in range(101)], 95) == 95.0
    assert percentile([10.0, 20.0], 50) == 15.0
    with pytest.raises(ValueError, match="needs 2 samples or more; got 1"):
        percentile([1.0], 95)


def test_a_limit_holds_from_above_or_below() -> None:
    assert Figure(name="next", value=50.0, unit="ms", limit=50).holds is True
    assert Figure(name="next", value=50.1, unit="ms", limit=50).holds is False
    assert Figure(name="import", value=15_000, unit="steps/s", limit=15_000, better="higher").holds is True
    assert Figure(name="import", value=14_999, unit="steps/s", limit=15_000, better="higher").holds is False
    assert Figure(name="memory", value=3, unit="MB").holds is None


def test_a_figure_is_one_json_object_on_one_line() -> None:
    line = Figure(name="next item, p95", value=12.34567, unit="ms", limit=50, with_={"annotators": 8}).as_json()
    assert json.loads(line) == {
        "name": "next item, p95",
        "value": 12.346,
        "unit": "ms",
        "limit": 50,
        "better": "lower",
        "with": {"annotators": 8},
        "holds": True,
    }
    assert "\n" not in line


def test_the_table_says_what_was_missed() -> None:
    shown = table([Figure(name="import", value=14_000, unit="steps/s", limit=15_000, better="higher")])
    assert shown.split() == ["import", "14,000.0", "steps/s", "≥", "15,000", "MISSED"]


def test_sizes_have_names_or_numbers() -> None:
    assert Size.named("full") == Size(items=100_000)
    assert Size.named("full").trajectories == 200_000
    assert Size.named("250").items == 250
    with pytest.raises(ValueError, match="expected small, medium, full or a number of items"):
        Size.named("huge")


def test_an_error_in_one_of_many_threads_is_not_lost() -> None:
    met = threading.Barrier(3, timeout=5)

    def work(number: int) -> None:
        met.wait()  # all three really run concurrently
        if number == 1:
            raise LookupError("nothing to label")

    with pytest.raises(LookupError, match="nothing to label"):
        at_once(3, work)
