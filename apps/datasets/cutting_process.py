"""A process of its own that cuts the next pairs while this one makes rows of the last: Python runs on one core at a time.

Both ends of it. Requests and answers are pickles in the child's standard input and output; the child ends when either is closed.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

from django.conf import settings
from django.db import connection

from apps.datasets.cutting import Cut, Cutter, Wanted

AHEAD_BYTES = 1024 * 1024
"""Of answers may wait in the pipe: neither process should wait for the other where one is held up for a moment."""

LAST_WORDS_SECONDS = 5


class CuttingStopped(RuntimeError):
    """The process ended before its work. Its own words are in the worker's log."""


class CuttingProcess:
    """A cutter at work elsewhere. A request of some hundred pairs fits into a pipe, so it may wait there."""

    def __init__(self, cutter: Cutter) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with suppress(OSError):  # what the system does not grant only makes it slower
            fcntl.fcntl(self._child.stdout, fcntl.F_SETPIPE_SZ, AHEAD_BYTES)  # type: ignore[arg-type]  # a pipe, as asked
        self._send((cutter, connection.settings_dict["NAME"]))

    def ask(self, wanted: Sequence[Wanted]) -> None:
        """Have these cut, after all that was asked before."""
        self._send(list(wanted))

    def answers(self, count: int) -> Iterator[Cut]:
        """The next answers, in the order of asking. Raises CuttingStopped."""
        assert self._child.stdout
        for _ in range(count):
            try:
                cut: Cut = pickle.load(self._child.stdout)
            except (EOFError, pickle.UnpicklingError):
                raise self._stopped() from None
            yield cut

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._child.kill()
        self._child.communicate()

    def _send(self, what: object) -> None:
        assert self._child.stdin
        try:
            pickle.dump(what, self._child.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._stopped() from None

    def _stopped(self) -> CuttingStopped:
        try:
            status = self._child.wait(timeout=LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:  # it lives, but nobody can tell where its next answer begins
            self._child.kill()
            status = self._child.wait()
        return CuttingStopped(f"The process that cuts runs into rows ended with status {status}.")


def main() -> None:
    """Cut what standard input asks for until it ends."""
    requests = sys.stdin.buffer
    # Not sys.stdout: under PYTHONUNBUFFERED it may write less than it is given, and whatever prints would print into it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    cutter, database = pickle.load(requests)
    connection.settings_dict["NAME"] = database
    try:
        while True:
            for cut in cutter.cut(pickle.load(requests)):
                pickle.dump(cut, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
    except (EOFError, BrokenPipeError):
        return  # nothing more is asked, or nobody listens


if __name__ == "__main__":
    main()
