"""One supervisor a data folder. The kernel drops the lock with the process, so a killed one blocks nobody."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apps.common.stack.errors import AlreadyRunning


class StackLock:
    """The held lock; `announce` tells later comers where this stack answers."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def announce(self, address: str) -> None:
        """Write down our pid and address."""
        text = json.dumps({"pid": os.getpid(), "address": address}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


@contextmanager
def hold(path: Path) -> Iterator[StackLock]:
    """Hold the lock at `path` for the length of a `with` block. Raises AlreadyRunning when another process does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(_who(path)) from None
        lock = StackLock(descriptor)
        lock.announce("")
        yield lock
    finally:
        os.close(descriptor)


def _who(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        pid, address = holder["pid"], holder["address"]
    except (ValueError, KeyError):  # read between truncation and writing
        return f"Retrace already runs on {path.parent}. Stop it first (Ctrl-C there)."
    where = f"at {address}" if address else "and is still starting"
    return f"Retrace already runs on {path.parent} {where} (process {pid}). Stop it with Ctrl-C there, or: kill {pid}"
