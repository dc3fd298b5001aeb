"""A process of its own that cuts the next pairs while this one makes rows of the last. Both ends of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

from django.db import connection

from apps.common.second_process import SecondProcess, standard_streams, write
from apps.datasets.rows.cutting import Cut, Cutter, Wanted


class CuttingProcess:
    """A cutter at work elsewhere. A request of some hundred pairs fits into a pipe, so it may wait there."""

    def __init__(self, cutter: Cutter) -> None:
        self._process = SecondProcess(__name__)
        self._process.send((cutter, connection.settings_dict["NAME"]))

    def ask(self, wanted: Sequence[Wanted]) -> None:
        """Have these cut, after all that was asked before. Raises Stopped."""
        self._process.send(list(wanted))

    def answers(self, count: int) -> Iterator[Cut]:
        """The next answers, in the order of asking. Raises Stopped."""
        for _ in range(count):
            yield self._process.receive()

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._process.close()


def main() -> None:
    """Cut what standard input asks for until it ends."""
    requests, answers = standard_streams()
    cutter, database = pickle.load(requests)
    connection.settings_dict["NAME"] = database
    try:
        while True:
            for cut in cutter.cut(pickle.load(requests)):
                write(cut, answers)
            answers.flush()
    except (EOFError, BrokenPipeError):
        return  # nothing more is asked, or nobody listens


if __name__ == "__main__":
    main()
