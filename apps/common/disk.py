"""Whether there is room on the disks that this process writes to."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

RESERVE_BYTES = 64 << 20
"""What must stay free: with less, Valkey's log and PostgreSQL's journal soon have nowhere to go."""
FULL = "The server's disk is full, so nothing was saved. Ask your administrator to free some space."


class DiskFull(OSError):
    """There is no room for what was to be written, and nothing of it was kept."""

    def __init__(self) -> None:
        super().__init__(errno.ENOSPC, FULL)

    def __str__(self) -> str:
        return FULL


def says_full(error: BaseException) -> bool:
    """Whether the system said that a disk, or somebody's share of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def has_room(size: int = 0) -> bool:
    """Whether `size` bytes fit on every disk that a request writes to, and leave the reserve."""
    return all(free >= size + RESERVE_BYTES for free in _free_bytes())


def _free_bytes() -> Iterator[int]:
    """Of each disk that is there. A folder that nothing was written to yet may not be."""
    for folder in {Path(settings.VAR), Path(settings.RUNS_DIR), Path(tempfile.gettempdir())}:
        with suppress(FileNotFoundError):
            yield shutil.disk_usage(folder).free
