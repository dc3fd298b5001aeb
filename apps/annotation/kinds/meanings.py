"""How the columns of an imported file translate to judgments, as configured by a researcher. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, TypeVar

from apps.annotation.kinds.answers import InspectionAnswer, Label
from apps.annotation.models import Inspection

T = TypeVar("T")
Info = Mapping[str, Any]
"""A record's extra columns: column -> value."""

WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
"""An integer, as text."""

VERDICT = re.compile(
    "label|rating|score|verdict|prefer|winner|better|judg|annotat|vote|correct|error|mistake|feedback|thumb|safe|quality|grade"
)
"""Common names of columns that hold verdicts."""


class Columns(NamedTuple):
    """Columns that hold the same kind of value from the same set, such as `annotator1` and `annotator2`."""

    names: tuple[str, ...]
    values: tuple[tuple[str, int], ...]
    """(value as JSON, number of occurrences)."""


@dataclass(frozen=True)
class Survey:
    """The columns found in the first trajectories of a selection."""

    runs: int
    sides: tuple[str, str] | None
    """The names of a pair's two sides, if the file has pairs."""
    verdicts: tuple[Columns, ...]
    """Columns with a small set of values: of pairs if there are any, else of trajectories."""
    labels: tuple[Columns, ...]
    """The same for steps."""
    indexes: tuple[str, ...]
    """Columns of trajectories that hold only integers, as an index of a step would be."""
    names: tuple[str, ...]
    """Columns that may name the annotator."""

    @property
    def is_likely(self) -> bool:
        """Whether there are pairs, or a column whose name suggests a verdict."""
        columns = (*(name for group in (*self.verdicts, *self.labels) for name in group.names), *self.indexes)
        return bool(self.sides) or any(VERDICT.search(name) for name in columns)


@dataclass(frozen=True)
class Column:
    """One column that holds verdicts."""

    name: str
    means: Mapping[str, str]
    """Value as JSON -> one of `Kind.imported_values`. Values not listed are ignored."""
    is_somebody: bool = False
    """Whether the column belongs to an annotator of its own, named after it."""
    of_steps: bool = False
    first: int | None = None
    """For a column of first errors: its number for the first step, 0 or 1. A negative value means no error."""


@dataclass(frozen=True)
class Meanings:
    """How to interpret a file."""

    kind: str
    """The kind of the resulting queue."""
    columns: tuple[Column, ...]
    who: str = ""
    """The column that names the annotator; empty if none does."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["kind"], tuple(Column(**column) for column in data["columns"]), data["who"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def annotator(self, column: Column, info: Mapping[str, Any]) -> str:
        """The annotator of this column's verdict; empty if unnamed: all unnamed judgments belong to one annotator."""
        name = info.get(self.who)
        parts = (str(name) if name not in (None, "") else "", column.name if column.is_somebody else "")
        return " ".join(filter(None, parts))


def answers_by_annotator(meanings: Meanings, info: Mapping[str, Any], read: Callable[[str], T]) -> dict[str, T]:
    """A record's judgments by annotator: the first column of each that has a meaning."""
    answers: dict[str, T] = {}
    for column in meanings.columns:
        if (meaning := _meaning_of(column, info)) is not None:
            answers.setdefault(meanings.annotator(column, info), read(meaning))
    return answers


def inspections_by_annotator(
    meanings: Meanings, info: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]
) -> dict[str, InspectionAnswer]:
    """A trajectory's inspections by annotator; `steps` are the extra columns of each step."""
    walks: dict[str, InspectionAnswer] = {}
    for column in meanings.columns:
        walk = _inspection_from_labels(column, steps) if column.of_steps else _first_error(column, info, len(steps))
        if walk:
            walks.setdefault(meanings.annotator(column, info), walk)
    return walks


def _inspection_from_labels(column: Column, steps: Sequence[Mapping[str, Any]]) -> InspectionAnswer | None:
    """None unless every step up to the first bad one has a label."""
    values = [_meaning_of(column, step) for step in steps]
    first_error = next((index for index, value in enumerate(values) if value == "-1"), None)
    if not values or None in values[: first_error if first_error is not None else None]:
        return None
    return _inspection(first_error, [(int(value), False) if value is not None else (-1, True) for value in values])


def _first_error(column: Column, info: Mapping[str, Any], steps: int) -> InspectionAnswer | None:
    """None if the column is empty, or names a step that doesn't exist."""
    value = info.get(column.name)
    if type(value) is str and WHOLE.fullmatch(value):  # from a table of text
        value = int(value)
    if type(value) is not int or column.first is None or value - column.first >= steps:
        return None
    first_error = value - column.first if value >= column.first else None
    if first_error is None and value >= 0:
        return None  # step 0, though steps are counted from 1
    return _inspection(
        first_error, [(1 if first_error is None or at < first_error else -1, at != first_error) for at in range(steps)]
    )


def _inspection(first_error: int | None, values: Sequence[tuple[int, bool]]) -> InspectionAnswer:
    """`values` has (label, whether it was filled in from the first error) for each step, in order."""
    ending = Inspection.Ending.SOLVED if first_error is None else Inspection.Ending.FOUND_ERROR
    labels = (Label(index, value, is_filled) for index, (value, is_filled) in enumerate(values))
    return InspectionAnswer(ending.value, first_error, tuple(labels))


def _meaning_of(column: Column, info: Mapping[str, Any]) -> str | None:
    value = info.get(column.name)
    return None if value is None else column.means.get(json.dumps(value))
