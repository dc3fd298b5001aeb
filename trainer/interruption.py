"""SIGTERM and Ctrl-C become a request that the work looks at between two steps."""

import signal
from types import FrameType


class StoppedMidway(Exception):
    """A stop was asked for within a step, while nothing had changed yet since the last one."""


class StopRequest:
    """Whether someone asked the run to stop.

    A plain attribute, not a threading.Event: a signal handler must not take a lock that the interrupted code may hold.
    """

    def __init__(self) -> None:
        self.requested = False
        self.reason = ""
        """Why, where the run itself asked."""

    def ask(self, reason: str) -> None:
        """Stop as if SIGTERM had come, and say why. The first reason holds."""
        self.reason = self.reason or reason
        self.requested = True

    def listen(self) -> None:
        """Take over SIGTERM and SIGINT of this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
