"""Two jobs that take steps alternately, and the comparison of their durations. Training itself is only measured by `make bench`."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bench.side_by_side import SideFailed, compared, side_by_side


def noting(name: str, steps: int, file: Path, ended: Callable[[], None]) -> None:
    for _ in range(steps):
        with file.open("a") as notes:
            notes.write(name)
        ended()


def busy(seconds: float, ended: Callable[[], None]) -> None:
    for _ in range(8):
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass
        ended()


def sleeping(ended: Callable[[], None]) -> None:
    for _ in range(8):
        time.sleep(0.01)
        ended()


def failing(ended: Callable[[], None]) -> None:
    ended()
    raise LookupError("no rows")


def vanishing(ended: Callable[[], None]) -> None:
    ended()
    os._exit(3)


def test_steps_are_taken_in_turn_until_one_has_no_more(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    ours, theirs = side_by_side(partial(noting, "a", 3, file), partial(noting, "b", 5, file))
    assert file.read_text() == "abababbb"
    assert (len(ours), len(theirs)) == (2, 4)  # the first step includes loading


def test_what_a_job_sleeps_or_waits_for_the_other_is_no_work_of_its_own() -> None:
    working, resting = side_by_side(partial(busy, 0.05), sleeping)
    assert min(step.processor for step in working) >= 0.05
    assert max(step.processor for step in resting) < 0.04
    assert min(step.wall for step in resting) >= 0.01


@pytest.mark.parametrize(("job", "words"), [(failing, "no rows"), (vanishing, "ended with 3")])
def test_a_side_that_fails_is_told_and_does_not_hold_the_other(tmp_path: Path, job, words: str) -> None:
    file = tmp_path / "notes"
    with pytest.raises(SideFailed, match=words):
        side_by_side(partial(noting, "a", 3, file), job)
    assert file.read_text() == "aaa"


def test_the_ratio_is_that_of_most_steps_and_the_interval_holds_it() -> None:
    bare = [1.0] * 10
    ours = [1.01, 1.02, 1.02, 1.02, 1.04, 1.04, 1.04, 1.05, 1.06, 9.0]
    # For ten values, the median's 95 % interval is from the second to the ninth: 2 × (1 + 10) / 2**10 = 2 %; one place further in, 11 %.
    assert compared(ours, bare) == (1.04, 1.02, 1.06)
    with pytest.raises(ValueError, match="needs 6 pairs or more; got 5"):
        compared(ours[:5], bare[:5])
