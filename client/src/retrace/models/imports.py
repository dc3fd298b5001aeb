"""Imports, and what their files say of their own trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Import(Waitable):
    """An import: how far it is and what came of it."""

    id: str
    url: str  # Where to ask again.
    state: str
    file: str
    size: int  # Bytes as uploaded.
    sha256: str
    format: str
    bytes_read: int
    trajectories: int
    tasks: int | None  # Of how many tasks they are; null until it is done.
    steps: int
    duplicates: int
    outcomes: int
    rejected: int
    rejected_rows: str  # The rejected rows as JSON Lines; `?format=csv` for a spreadsheet.
    warning_count: int  # What was left out of records that came in.
    warnings: list[str]  # What was left out, or looks wrong: the first of `warning_count`.
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
    """A value, and how often it stands in the first trajectories."""

    value: Any  # Text, a number or a boolean.
    times: int


class SaidColumn(Answer):
    """Columns that say one of a few things, in the same words."""

    names: list[str]
    values: list[SaidValue]


class Survey(Answer):
    """What the first trajectories of an import say of themselves beside their chat."""

    runs: int  # Looked at, from the first on.
    sides: list[str] | None  # What each pair's sides are called; null: no pairs.
    verdicts: list[SaidColumn]  # Of pairs, or of trajectories where there are none.
    labels: list[SaidColumn]  # Of steps.
    indexes: list[str]  # Columns of whole numbers.
    names: list[str]  # Columns that may name who judged.


class Meaning(TypedDict, total=False):
    """What one value means."""

    value: Required[Any]  # As it stands in the file: text, a number or a boolean.
    means: Required[str]


class Column(TypedDict, total=False):
    """One column that says verdicts: what its values mean or, where it names the first wrong step, how that is counted."""

    name: Required[str]
    values: Sequence[Meaning]
    is_somebody: bool  # It is the verdict of an annotator called like it.
    of_steps: bool  # It stands with steps, not with the trajectory.
    first: Literal[0, 1] | None  # It names the first wrong step, and the first step is this one.


class Adopt(TypedDict, total=False):
    """What a file's columns mean."""

    name: Required[str]  # Of the queue.
    kind: Required[Literal["pairwise", "steps", "rating"]]
    origin: str  # Where they come from; the name of the file if empty.
    judged_by: Literal["person", "model"]
    who: str  # The column that names who judged.
    columns: Required[Sequence[Column]]
