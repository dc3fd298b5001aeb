"""Imports, and the judgments in their files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Import(Waitable):
    """An import: its progress and results."""

    id: str
    url: str  # URL for polling.
    state: str
    file: str
    size: int  # Size of the uploaded file in bytes.
    sha256: str
    format: str
    bytes_read: int
    trajectories: int
    tasks: int | None  # Number of tasks of these trajectories; null until it's done.
    steps: int
    duplicates: int
    outcomes: int
    rejected: int
    rejected_rows: str  # The rejected rows as JSON Lines; `?format=csv` for a spreadsheet.
    warning_count: int  # How many things were left out of imported records.
    warnings: list[str]  # What was left out or looks wrong: the first of `warning_count`.
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def path(self) -> str:
        return address("/imports/{}", self.id)

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None

    @property
    def problem(self) -> str:
        return self.error or ("It was cancelled." if self.state == "cancelled" else "")

    @property
    def progress(self) -> Progress:
        return Progress(self.bytes_read, self.size, "bytes")


class SaidValue(Answer):
    """A value, and how often it occurs in the first trajectories."""

    value: Any  # Text, a number or a boolean.
    times: int


class SaidColumn(Answer):
    """Columns with the same few values."""

    names: list[str]
    values: list[SaidValue]


class Survey(Answer):
    """The values, other than chats, in the first trajectories of an import."""

    runs: int  # Number of trajectories examined, from the first.
    sides: list[str] | None  # The names of each pair's sides; null: no pairs.
    verdicts: list[SaidColumn]  # Columns about pairs, or about trajectories if there are no pairs.
    labels: list[SaidColumn]  # Columns about steps.
    indexes: list[str]  # Columns of integers.
    names: list[str]  # Columns that may name the annotator.


class Meaning(TypedDict, total=False):
    """The meaning of one value."""

    value: Required[Any]  # As in the file: text, a number, or a boolean.
    means: Required[str]


class Column(TypedDict, total=False):
    """A column of verdicts: what its values mean or, if it holds the index of the first wrong step, how that is counted."""

    name: Required[str]
    values: Sequence[Meaning]
    is_somebody: bool  # It's the verdict of an annotator named like the column.
    of_steps: bool  # It's a field of steps, not of the trajectory.
    first: Literal[0, 1] | None  # It holds the index of the first wrong step, counted from this number.


class Adopt(TypedDict, total=False):
    """The meaning of a file's columns."""

    name: Required[str]  # Name of the queue.
    kind: Required[Literal["pairwise", "steps", "rating"]]
    origin: str  # The judgments' source; default: the file's name.
    judged_by: Literal["person", "model"]
    who: str  # The column that names the annotator.
    columns: Required[Sequence[Column]]
