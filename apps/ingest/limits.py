"""How much of a file may be unpacked, and how much of it may be in memory."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds in bytes."""

    unpacked: int = 100 << 30
    """What a compressed file, or all files of an archive together, may unpack to."""

    record: int = 128 << 20
    """One record, the most that is held in memory at once."""


USUAL = Limits()
