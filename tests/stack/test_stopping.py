"""A signal is never lost, whatever the supervisor is doing."""

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from apps.common.stack.launcher import SIGNALS, StopRequested, StopSignal


@pytest.fixture(autouse=True)
def handlers_are_put_back() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_interrupts_at_once(signum: signal.Signals) -> None:
    stop = StopSignal()
    stop.listen()
    with pytest.raises(StopRequested):
        signal.raise_signal(signum)


def test_a_signal_that_python_dropped_is_raised_at_the_next_look() -> None:
    stop = StopSignal()
    stop.listen()
    with suppress(StopRequested):  # as the hooks around a fork do
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(StopRequested):
        stop.sleep(30)


def test_a_second_signal_does_something_else() -> None:
    stop, seen = StopSignal(), []
    stop.then(lambda: seen.append("killed"))
    signal.raise_signal(signal.SIGINT)
    assert seen == ["killed"]
    stop.check()
