"""Rows in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 200
"""Rows that are read or written together."""


def batched(rows: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """The rows, at most `size` at a time."""
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch
