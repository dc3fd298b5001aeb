"""A process of its own that reads the next pairs while this one makes rows of the last. Both ends of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

from django.db import connection

from apps.common.second_process import SecondProcess, standard_streams, write
from apps.datasets.rows.pair_reader import PairMessages, PairReader, PairRequest


class PairReaderProcess:
    """A pair reader at work elsewhere. A request of some hundred pairs fits into a pipe, so it may wait there."""

    def __init__(self, reader: PairReader) -> None:
        self._process = SecondProcess(__name__)
        self._process.send((reader, connection.settings_dict["NAME"]))

    def ask(self, requests: Sequence[PairRequest]) -> None:
        """Have these read, after all that was asked before. Raises Stopped."""
        self._process.send(list(requests))

    def answers(self, count: int) -> Iterator[PairMessages]:
        """The next answers, in the order of asking. Raises Stopped."""
        for _ in range(count):
            yield self._process.receive()

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._process.close()


def main() -> None:
    """Read what standard input asks for until it ends."""
    requests, answers = standard_streams()
    reader, database = pickle.load(requests)
    connection.settings_dict["NAME"] = database
    try:
        while True:
            for found in reader.read(pickle.load(requests)):
                write(found, answers)
            answers.flush()
    except (EOFError, BrokenPipeError):
        return  # nothing more is asked, or nobody listens


if __name__ == "__main__":
    main()
