"""The embedded database and broker together, for `run`, the tests, and the benchmarks: in folders owned by the user, under a lock."""

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from apps.common.stack.errors import AlreadyRunning, StackError
from apps.common.stack.paths import StackPaths
from apps.common.stack.postgres import Postgres
from apps.common.stack.valkey import Valkey


class EmbeddedServices:
    """PostgreSQL and Valkey for as long as the `with` block lasts. Start it from the main thread.

    Either can be replaced by an external server.
    """

    def __init__(self, paths: StackPaths, *, durable: bool = True, postgres: bool = True, valkey: bool = True) -> None:
        self.paths = paths
        self.parts: list[Postgres | Valkey] = []
        if postgres:
            self.parts.append(Postgres(paths, durable=durable))
        if valkey:
            self.parts.append(Valkey(paths, durable=durable))
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            prepare(self.paths)
            self.lock = undo.enter_context(acquire(self.paths.lock))
            undo.callback(shutil.rmtree, self.paths.runtime, ignore_errors=True)
            for part in self.parts:
                undo.callback(part.stop)
                part.start()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()


NEEDED_BYTES = 500 * 1024**2


def prepare(paths: StackPaths) -> None:
    """Make the data, log and socket folders.

    Raises StackError if the disk is full or read-only, or a folder belongs to another user.
    """
    try:
        for folder in (paths.var, paths.logs, paths.valkey_data):
            folder.mkdir(parents=True, exist_ok=True)
        paths.runtime.mkdir(mode=0o711, exist_ok=True)
    except OSError as error:
        raise StackError(f"Cannot make {error.filename}: {error.strerror}. Is the disk writable by you?") from error
    _refuse_foreign(paths.runtime)
    # Others may traverse it (the database's user must), but not list it; each socket has its own mode.
    paths.runtime.chmod(0o711)
    if not os.access(paths.var, os.W_OK):
        raise StackError(f"{paths.var} belongs to another user. Give it to yourself (chown) or set RETRACE_VAR.")
    free = shutil.disk_usage(paths.var).free
    if free < NEEDED_BYTES:
        raise StackError(
            f"The disk that holds {paths.var} has {free / 1024**2:.0f} MB left; Retrace needs "
            f"{NEEDED_BYTES / 1024**2:.0f} MB. Free some space, or set RETRACE_VAR to a folder on a larger disk."
        )


def _refuse_foreign(folder: Path) -> None:
    """The socket folder's name is predictable, so only use it if we own it."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise StackError(f"{folder} exists and is not ours (owner uid {status.st_uid}). Remove it, then try again.")


class StackLock:
    """The held lock; `announce` publishes this stack's address."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def announce(self, address: str) -> None:
        """Write our pid and address to the lock file."""
        text = json.dumps({"pid": os.getpid(), "address": address}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


@contextmanager
def acquire(path: Path) -> Iterator[StackLock]:
    """Hold the lock at `path` during a `with` block. Raises AlreadyRunning if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(_owner_of(path)) from None
        lock = StackLock(descriptor)
        lock.announce("")
        yield lock
    finally:
        os.close(descriptor)


def _owner_of(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        pid, address = holder["pid"], holder["address"]
    except (ValueError, KeyError):  # read between truncation and writing
        return f"Retrace already runs on {path.parent}. Stop it first (Ctrl-C there)."
    location = f"at {address}" if address else "and is still starting"
    return (
        f"Retrace already runs on {path.parent} {location} (process {pid}). Stop it with Ctrl-C there, or: kill {pid}"
    )
