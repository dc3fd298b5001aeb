"""From two stored runs to the messages of their rows: read, spelled and cut. The heavier half of freezing pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apps.datasets.rows import chats
from apps.datasets.rows.preference import Sides, Turn, Unusable, first_turns, read_turns, sides


class Wanted(NamedTuple):
    """Two runs, and for each of their rows whether the first run is the chosen one."""

    first: str
    second: str
    first_won: tuple[bool, ...]


class Cut(NamedTuple):
    """What two runs come to."""

    tools: tuple[bytes, bytes]
    """That the first run was offered, and that the second was: JSON text."""
    rows: list[Sides | Unusable]
    """For each row its messages, or why there is none."""


class Cutter(NamedTuple):
    """How the rows of a version are cut."""

    by_step: bool
    """Only the two actions at which the runs part."""
    keep_surrogates: bool

    def cut(self, wanted: Sequence[Wanted]) -> Iterator[Cut]:
        """The rows of each two runs, in order. Read it to its end: it streams from the database."""
        said = chats.read([run for pair in wanted for run in (pair.first, pair.second)])
        for pair, one, other in zip(wanted, said, said, strict=True):
            first = read_turns(one.steps, keep_surrogates=self.keep_surrogates)
            second = read_turns(other.steps, keep_surrogates=self.keep_surrogates)
            rows = [self._row(first, second) if won else self._row(second, first) for won in pair.first_won]
            yield Cut((one.tools, other.tools), rows)

    def _row(self, chosen: Sequence[Turn], rejected: Sequence[Turn]) -> Sides | Unusable:
        try:
            cut = sides(chosen, rejected)
            return first_turns(cut) if self.by_step else cut
        except Unusable as refusal:
            return refusal
