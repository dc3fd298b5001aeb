"""Turns SIGTERM and Ctrl-C into a stop request that is checked between steps."""

import signal
from types import FrameType


class StoppedMidway(Exception):
    """A stop was requested within a step, before anything changed."""


class StopRequest:
    """Whether a stop was requested.

    A plain attribute, not a threading.Event: a signal handler must not take a lock that the interrupted code may hold.
    """

    def __init__(self) -> None:
        self.requested = False
        self.reason = ""
        """The reason, if the run itself requested it."""

    def ask(self, reason: str) -> None:
        """Request a stop, as SIGTERM does, with a reason. The first reason is kept."""
        self.reason = self.reason or reason
        self.requested = True

    def listen(self) -> None:
        """Take over SIGTERM and SIGINT of this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
