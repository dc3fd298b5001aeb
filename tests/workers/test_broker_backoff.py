"""A worker waits for its broker: how long between attempts, and what it logs."""

import pytest

from workers import broker_backoff
from workers.app import app
from workers.broker_backoff import Backoff, BackoffConsumer


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch):
    """Advances time by this many seconds."""
    clock = [0.0]
    monkeypatch.setattr(broker_backoff.time, "monotonic", lambda: clock[0])

    def by(seconds: float) -> None:
        clock[0] += seconds

    return by


def test_waits_grow_to_half_a_minute_and_never_end(passes):
    backoff, waits = Backoff(), []
    for _ in range(200):
        waits.append(backoff.next_wait())
        passes(waits[-1])
    assert waits[:7] == [1, 2, 4, 8, 16, 30, 30]
    assert waits[-1] == 30


def test_after_a_calm_minute_a_new_trouble_is_waited_for_shortly(passes):
    backoff = Backoff()
    for _ in range(8):
        passes(backoff.next_wait())
    passes(100)
    assert backoff.next_wait() == 1


def test_it_says_so_at_once_and_then_once_a_minute(passes):
    backoff = Backoff()
    log_count = 0
    for _ in range(600):
        log_count += backoff.may_log()
        passes(1)
    assert log_count == 10


def test_workers_use_it_and_give_up_neither_on_a_lost_broker_nor_on_one_that_refuses():
    assert app.conf.worker_consumer == f"{BackoffConsumer.__module__}:{BackoffConsumer.__qualname__}"
    assert app.conf.broker_connection_max_retries is None
    assert app.conf.broker_channel_error_retry is True
