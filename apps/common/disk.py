"""Checks for free space on the disks that this process writes to."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

RESERVE_BYTES = 64 << 20
"""Bytes that must stay free for Valkey's append-only file and PostgreSQL's WAL."""
FULL = "The server's disk is full, so nothing was saved. Ask your administrator to free some space."


class DiskFull(OSError):
    """The disk is full, and nothing was written."""

    def __init__(self) -> None:
        super().__init__(errno.ENOSPC, FULL)

    def __str__(self) -> str:
        return FULL


def is_out_of_space(error: BaseException) -> bool:
    """Whether the error is a full disk or an exceeded quota."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def words_of(error: Exception) -> str:
    """An error's message; of a file's, only what is wrong, since the server's paths are nobody's business."""
    return str(error.strerror) if isinstance(error, OSError) and error.filename is not None else str(error)


def has_room(size: int = 0) -> bool:
    """Whether `size` bytes fit on every disk that a request writes to, and leave the reserve."""
    return all(free >= size + RESERVE_BYTES for free in _free_bytes())


def _free_bytes() -> Iterator[int]:
    """Free bytes of each disk. A folder that hasn't been written to may not exist yet."""
    for folder in {Path(settings.VAR), Path(settings.RUNS_DIR), Path(tempfile.gettempdir())}:
        with suppress(FileNotFoundError):
            yield shutil.disk_usage(folder).free
