"""A folder as a tar archive, made while it is sent. Weights do not compress, so it is not compressed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tarfile import BLOCKSIZE, GNU_FORMAT, TarInfo

PIECE_BYTES = 1 << 20


def tar_of(folder: str, *, within: str) -> Iterator[bytes]:
    """The files of `folder`, under the name `within`. A file that is longer by the time it is read is cut at the size it had."""
    place = Path(folder)
    for path in sorted(each for each in place.rglob("*") if each.is_file()):
        entry = TarInfo(f"{within}/{path.relative_to(place)}")
        entry.size = path.stat().st_size
        entry.mtime = int(path.stat().st_mtime)
        yield entry.tobuf(format=GNU_FORMAT)
        left = entry.size
        with path.open("rb") as file:
            while left and (piece := file.read(min(PIECE_BYTES, left))):
                left -= len(piece)
                yield piece
        yield b"\0" * (left + -entry.size % BLOCKSIZE)
    yield b"\0" * 2 * BLOCKSIZE
