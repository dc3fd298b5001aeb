"""From two stored runs to the messages of their rows. The heavier half of freezing pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apps.datasets.rows import ROW_TYPES, stored_chats
from apps.datasets.rows.chat_encoding import Turn, read_turns
from apps.datasets.rows.divergence import Sides, Unusable


class PairRequest(NamedTuple):
    """Two runs, and for each of their rows whether the first run is the chosen one."""

    first: str
    second: str
    first_won: tuple[bool, ...]


class PairMessages(NamedTuple):
    """What two runs come to."""

    tools: tuple[bytes, bytes]
    """That the first run was offered, and that the second was: JSON text."""
    rows: list[Sides | Unusable]
    """For each row its messages, or why there is none."""


class PairReader(NamedTuple):
    """Makes the messages of rows of one type."""

    row_type: str
    keep_surrogates: bool

    def read(self, requests: Sequence[PairRequest]) -> Iterator[PairMessages]:
        """The rows of each two runs, in order. Read it to its end: it streams from the database."""
        chats = stored_chats.read([run for pair in requests for run in (pair.first, pair.second)])
        for pair, one, other in zip(requests, chats, chats, strict=True):
            first = read_turns(one.steps, keep_surrogates=self.keep_surrogates)
            second = read_turns(other.steps, keep_surrogates=self.keep_surrogates)
            rows = [self._row(first, second) if won else self._row(second, first) for won in pair.first_won]
            yield PairMessages((one.tools, other.tools), rows)

    def _row(self, chosen: Sequence[Turn], rejected: Sequence[Turn]) -> Sides | Unusable:
        rule = ROW_TYPES[self.row_type].pairs
        assert rule is not None, f"no {self.row_type} row is made of a pair"
        try:
            return rule.sides(chosen, rejected)
        except Unusable as refusal:
            return refusal
