"""Reads the messages of pair rows from two stored trajectories.

It's the slower half of freezing pairs, so it can run in a process of its own, one chunk ahead.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from django.db import connection

from apps.common.second_process import SecondProcess, standard_streams, write
from apps.datasets.rows import ROW_TYPES, chat_encoding
from apps.datasets.rows.chat_encoding import Turn, read_turns
from apps.datasets.rows.divergence import Sides, Unusable


class PairRequest(NamedTuple):
    """Two trajectories, and for each of their rows whether the first trajectory is the chosen one."""

    first: str
    second: str
    first_won: tuple[bool, ...]


class PairMessages(NamedTuple):
    """The rows of two trajectories."""

    tools: tuple[bytes, bytes]
    """The tools offered in the first and the second trajectory, as JSON text."""
    rows: list[Sides | Unusable]
    """Each row's messages, or why it can't be made."""


class PairReader(NamedTuple):
    """Makes the messages of rows of one type."""

    row_type: str
    keep_surrogates: bool

    def read(self, requests: Sequence[PairRequest]) -> Generator[PairMessages, None, None]:
        """The rows of each pair, in order. Exhaust or close the generator: it streams from the database."""
        trajectories = [trajectory for pair in requests for trajectory in (pair.first, pair.second)]
        with closing(chat_encoding.read_chats(trajectories)) as chats:
            for pair, one, other in zip(requests, chats, chats, strict=True):
                first = read_turns(one.steps, keep_surrogates=self.keep_surrogates)
                second = read_turns(other.steps, keep_surrogates=self.keep_surrogates)
                rows = [self._row(first, second) if won else self._row(second, first) for won in pair.first_won]
                yield PairMessages((one.tools, other.tools), rows)

    def _row(self, chosen: Sequence[Turn], rejected: Sequence[Turn]) -> Sides | Unusable:
        rule = ROW_TYPES[self.row_type].pairs
        assert rule is not None, f"a pair makes no {self.row_type} row"
        try:
            return rule.sides(chosen, rejected)
        except Unusable as refusal:
            return refusal


class PairReaderProcess:
    """A pair reader in a child process. A request of a few hundred pairs fits into the pipe's buffer, so it can be sent ahead."""

    def __init__(self, reader: PairReader) -> None:
        self._process = SecondProcess(__name__)
        self._process.send((reader, connection.settings_dict["NAME"]))

    def ask(self, requests: Sequence[PairRequest]) -> None:
        """Queue these requests after all earlier ones. Raises Stopped."""
        self._process.send(list(requests))

    def answers(self, count: int) -> Iterator[PairMessages]:
        """The next `count` results, in the order of the requests. Raises Stopped."""
        for _ in range(count):
            yield self._process.receive()

    def close(self) -> None:
        """Terminate it, whatever it's doing."""
        self._process.close()


def main() -> None:
    """Read requests from standard input until it ends."""
    requests, answers = standard_streams()
    reader, database = pickle.load(requests)
    connection.settings_dict["NAME"] = database
    try:
        while True:
            for pair in reader.read(pickle.load(requests)):
                write(pair, answers)
            answers.flush()
    except (EOFError, BrokenPipeError):
        return  # no more requests, or nobody reads the results


if __name__ == "__main__":
    main()
