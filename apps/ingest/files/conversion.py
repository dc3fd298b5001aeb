"""Files that hold no JSON text but can be turned into it, piece by piece."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any


class Unusable(ValueError):
    """Why a file cannot be turned into JSON; the message goes on after “The file is”."""


class Pieces(io.RawIOBase):
    """What an iterator gives, as a stream; no more than a piece of it is in memory."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")  # of bytes, each block would copy all that is left
        self._refusal: Unusable | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._refusal:
            raise self._refusal
        if not self._left:
            try:
                self._left = memoryview(next(self._pieces, b""))
            except Unusable as error:  # whoever has read something good asks once more, and must hear it again
                self._refusal = error
                raise
        piece = self._left[: len(buffer)]
        self._left = self._left[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)
