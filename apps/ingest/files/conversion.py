"""Streaming conversion to JSON of files that aren't JSON text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any


class Unusable(ValueError):
    """Why a file can't be converted to JSON; the message completes “The file is”."""


class Pieces(io.RawIOBase):
    """A stream over an iterator of bytes; holds at most one piece in memory."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")  # slicing bytes would copy the remainder for each block
        self._refusal: Unusable | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._refusal:
            raise self._refusal
        if not self._left:
            try:
                self._left = memoryview(next(self._pieces, b""))
            except Unusable as error:  # a caller that got some data reads once more, and must get the error again
                self._refusal = error
                raise
        piece = self._left[: len(buffer)]
        self._left = self._left[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)
