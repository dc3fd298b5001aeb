"""How a signal ends the supervisor from wherever it is."""

import signal
import time
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """A signal asked us to stop. Not an Exception: nothing on the way may swallow it."""


class StopSignal:
    """Raises StopRequested where the signal finds us, and again at the next `check`.

    Raising alone is not enough: Python drops what is raised inside the hooks that it runs around a fork.
    """

    def __init__(self) -> None:
        self._requested = False

    def listen(self) -> None:
        """Take over SIGINT, SIGTERM and SIGHUP."""
        _on_signals(self._request)

    def then(self, act: Callable[[], None]) -> None:
        """From now on a signal calls `act` instead: we are stopping already."""
        _on_signals(lambda signum, frame: act())

    def check(self) -> None:
        """Raise StopRequested if a signal has come."""
        if self._requested:
            raise StopRequested

    def sleep(self, seconds: float) -> None:
        """Sleep, unless a signal has come or comes."""
        self.check()
        time.sleep(seconds)
        self.check()

    def _request(self, signum: int, frame: FrameType | None) -> None:
        self._requested = True
        raise StopRequested


def _on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    for signum in SIGNALS:
        signal.signal(signum, handler)
