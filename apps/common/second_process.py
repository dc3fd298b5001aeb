"""A second process for CPU-bound work, since the GIL limits a process to one core and a worker has two.

Both ends are here. A module is started with `-m`, exchanges pickled requests and answers through its standard input
and output, and ends when either is closed. Uploaded data is never unpickled: both ends are this code.
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
"""Bytes of pipe buffer for answers, so that short delays in one process don't block the other."""

LAST_WORDS_SECONDS = 5


class Stopped(RuntimeError):
    """The process ended before finishing. Its output is in the worker's log."""


class SecondProcess:
    """A module running in another process."""

    def __init__(self, module: str, *, keep_open: Sequence[int] = ()) -> None:
        """`keep_open`: additional descriptors to inherit."""
        self._module = module
        self._child = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=keep_open,
        )
        with suppress(OSError):  # optional: failing only makes it slower
            fcntl.fcntl(self._child.stdout, fcntl.F_SETPIPE_SZ, AHEAD_BYTES)  # type: ignore[arg-type]  # a pipe, as asked

    def send(self, request: object) -> None:
        """Send a request. Blocks while the pipe is full. Raises Stopped."""
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
        """Kill it, whatever it's doing."""
        self._child.kill()
        self._child.communicate()

    def _stopped(self) -> Stopped:
        try:
            status = self._child.wait(timeout=LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:  # it's alive, but the stream position is lost
            self._child.kill()
            status = self._child.wait()
        return Stopped(f"{self._module}, a second process of this worker, ended with status {status}.")


def standard_streams() -> tuple[IO[bytes], IO[bytes]]:
    """In the second process: the streams for requests and answers."""
    # Not sys.stdout: with PYTHONUNBUFFERED it may write partially, and print() would corrupt it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def write(value: object, stream: IO[bytes]) -> None:
    """Pickle an object to a stream."""
    pickle.dump(value, stream, protocol=pickle.HIGHEST_PROTOCOL)
