"""A second process for heavy work without the interpreter lock: Python runs on one core at a time, and a worker has two.

Both ends of it. A module is started with `-m`; it gets requests and gives answers, pickles all of them, through its standard input
and output, and ends when either is closed. Nothing that was uploaded is ever unpickled: both ends are this code.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from django.conf import settings

AHEAD_BYTES = 1024 * 1024
"""Of answers may wait in the pipe: neither process should wait for the other where one is held up for a moment."""

LAST_WORDS_SECONDS = 5


class Stopped(RuntimeError):
    """The process ended before its work. Its own words are in the worker's log."""


class SecondProcess:
    """A module at work elsewhere."""

    def __init__(self, module: str, *, keep_open: Sequence[int] = ()) -> None:
        """`keep_open`: descriptors that it shall have as well."""
        self._module = module
        self._child = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=keep_open,
        )
        with suppress(OSError):  # what the system does not grant only makes it slower
            fcntl.fcntl(self._child.stdout, fcntl.F_SETPIPE_SZ, AHEAD_BYTES)  # type: ignore[arg-type]  # a pipe, as asked

    def send(self, request: object) -> None:
        """Ask for something. What does not fit into a pipe waits for the process to take it. Raises Stopped."""
        assert self._child.stdin
        try:
            write(request, self._child.stdin)
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._stopped() from None

    def receive(self) -> Any:
        """The next answer. Raises Stopped."""
        assert self._child.stdout
        try:
            return pickle.load(self._child.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise self._stopped() from None

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._child.kill()
        self._child.communicate()

    def _stopped(self) -> Stopped:
        try:
            status = self._child.wait(timeout=LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:  # it lives, but nobody can tell where its next answer begins
            self._child.kill()
            status = self._child.wait()
        return Stopped(f"{self._module}, a second process of this worker, ended with status {status}.")


def standard_streams() -> tuple[IO[bytes], IO[bytes]]:
    """In the second process: where requests come from, and where answers go."""
    # Not sys.stdout: under PYTHONUNBUFFERED it may write less than it is given, and whatever prints would print into it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def write(what: object, stream: IO[bytes]) -> None:
    """Pickle something onto a stream."""
    pickle.dump(what, stream, protocol=pickle.HIGHEST_PROTOCOL)
