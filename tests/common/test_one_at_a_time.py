"""Work that only one worker does at a time, unless it takes too long."""

import time
from contextlib import ExitStack

import pytest
from django.core.cache import cache

from apps.common.one_at_a_time import one_at_a_time


def test_one_does_it_at_a_time() -> None:
    with one_at_a_time("work", seconds=60) as first, one_at_a_time("work", seconds=60) as second:
        assert (first, second) == (True, False)
        with one_at_a_time("other-work", seconds=60) as other:
            assert other
    with one_at_a_time("work", seconds=60) as again:
        assert again


def test_one_that_fails_leaves_it_to_the_next() -> None:
    with pytest.raises(ValueError, match="broken"), one_at_a_time("work", seconds=60):
        raise ValueError("broken")
    with one_at_a_time("work", seconds=60) as again:
        assert again


def test_one_that_was_suspended_stops_nobody_and_ends_nobody_elses_turn() -> None:
    with ExitStack() as outer:
        with one_at_a_time("work", seconds=60) as suspended:
            assert suspended
            cache.delete("at-work:work")  # as when its time limit has passed
            assert outer.enter_context(one_at_a_time("work", seconds=60))
        with one_at_a_time("work", seconds=60) as third:
            assert not third


def test_its_time_ends_by_itself() -> None:
    with one_at_a_time("work", seconds=1):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with one_at_a_time("work", seconds=60) as next_one:
                if next_one:
                    return
            time.sleep(0.05)
    pytest.fail("it never ended")
