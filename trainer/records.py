"""Tasks and trajectories in the trainer's files: JSON Lines, one per line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from contract.trajectory import Task, Trajectory
from contract.values import BadRow, JsonObject
from trainer.failures import DataFailure

Record = TypeVar("Record")


def read_lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """(line number, object) of each line of a JSON Lines file; empty lines are skipped. Raises DataFailure."""
    if not path.is_file():
        raise DataFailure(f"There is no data file {path}.", advice="Check the path: it is relative to run.json.")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise bad_row(path, number, f"it isn't JSON ({error})", "one JSON object on the line") from None
            if not isinstance(value, dict):
                raise bad_row(path, number, f"it is a {type(value).__name__}", "a JSON object")
            yield number, value


def bad_row(path: Path, number: int, problem: str, expected: str) -> DataFailure:
    """The failure for one row: its location, the problem, and what was expected."""
    return DataFailure(
        f"Row {number} of {path.name} cannot be used: {problem.rstrip('.')}. Expected {expected.rstrip('.')}.",
        advice=f"Correct or remove row {number} (`sed -n {number}p {path.name}` shows it), or export the version again.",
    )


def read_tasks(path: Path) -> list[Task]:
    """Raises DataFailure."""
    return list(_parsed(path, Task.from_json))


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Raises DataFailure."""
    return _parsed(path, Trajectory.from_json)


def _parsed(path: Path, parse: Callable[[JsonObject], Record]) -> Iterator[Record]:
    for number, row in read_lines(path):
        try:
            yield parse(row)
        except BadRow as refusal:
            raise bad_row(path, number, refusal.reason, refusal.expected) from None
