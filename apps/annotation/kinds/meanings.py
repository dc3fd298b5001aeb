"""What the columns of an imported file mean as judgments, as a researcher said it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, TypeVar

from apps.annotation.kinds.answers import Label, Walk
from apps.annotation.models import Inspection

T = TypeVar("T")
Info = Mapping[str, Any]
"""What a record says beside its chat: column -> value."""

WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
"""A whole number, as text."""

VERDICT = re.compile(
    "label|rating|score|verdict|prefer|winner|better|judg|annotat|vote|correct|error|mistake|feedback|thumb|safe|quality|grade"
)
"""What columns that say verdicts are often called."""


class Columns(NamedTuple):
    """Columns that say the same kind of thing in the same words, as `annotator1` and `annotator2` do."""

    names: tuple[str, ...]
    values: tuple[tuple[str, int], ...]
    """A value, as JSON, and how often it stands there."""


@dataclass(frozen=True)
class Survey:
    """What was found in the first trajectories of a selection."""

    runs: int
    sides: tuple[str, str] | None
    """What the two sides of a pair are called, where the file held pairs."""
    verdicts: tuple[Columns, ...]
    """Of pairs, where there are any, else of trajectories: columns that say one of a few things."""
    labels: tuple[Columns, ...]
    """The same of steps."""
    indexes: tuple[str, ...]
    """Columns of trajectories that say a whole number wherever they say something, as an index among the steps is."""
    names: tuple[str, ...]
    """Columns that may name who judged."""

    @property
    def is_likely(self) -> bool:
        """Whether there are pairs, or a column is called like a verdict."""
        said = (*(name for each in (*self.verdicts, *self.labels) for name in each.names), *self.indexes)
        return bool(self.sides) or any(VERDICT.search(name) for name in said)


@dataclass(frozen=True)
class Column:
    """One column that says verdicts."""

    name: str
    means: Mapping[str, str]
    """A value, as JSON -> one of `Kind.imported_values`. What is not among them says nothing."""
    is_somebody: bool = False
    """Whether it is the verdict of an annotator of its own, who is called like it."""
    of_steps: bool = False
    first: int | None = None
    """Of a column that names the first wrong step: what it calls the first step, 0 or 1. A negative number means that there is none."""


@dataclass(frozen=True)
class Meanings:
    """How a file is read."""

    kind: str
    """Of the queue that it becomes."""
    columns: tuple[Column, ...]
    who: str = ""
    """The column that names who judged; empty where none does."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(stored["kind"], tuple(Column(**each) for each in stored["columns"]), stored["who"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def annotator(self, column: Column, info: Mapping[str, Any]) -> str:
        """Who says what this column says there; empty where nothing names them: all such judgments are one annotator's."""
        named = info.get(self.who)
        parts = (str(named) if named not in (None, "") else "", column.name if column.is_somebody else "")
        return " ".join(filter(None, parts))


def said_by(meanings: Meanings, info: Mapping[str, Any], read: Callable[[str], T]) -> dict[str, T]:
    """What a record says, by annotator: the first column of each that says something."""
    found: dict[str, T] = {}
    for column in meanings.columns:
        if (said := _said(column, info)) is not None:
            found.setdefault(meanings.annotator(column, info), read(said))
    return found


def walks_by(meanings: Meanings, info: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, Walk]:
    """What a trajectory's record says of its steps, by annotator; `steps` are what was noted with each."""
    found: dict[str, Walk] = {}
    for column in meanings.columns:
        said = _labelled(column, steps) if column.of_steps else _first_error(column, info, len(steps))
        if said:
            found.setdefault(meanings.annotator(column, info), said)
    return found


def _labelled(column: Column, steps: Sequence[Mapping[str, Any]]) -> Walk | None:
    """None unless every step up to the first bad one has a label."""
    values = [_said(column, step) for step in steps]
    wrong = next((index for index, value in enumerate(values) if value == "-1"), None)
    if not values or None in values[: wrong if wrong is not None else None]:
        return None
    return _ended(wrong, [(int(value), False) if value is not None else (-1, True) for value in values])


def _first_error(column: Column, info: Mapping[str, Any], steps: int) -> Walk | None:
    """None where it says nothing, or names a step that is not there."""
    given = info.get(column.name)
    if type(given) is str and WHOLE.fullmatch(given):  # of a table as text
        given = int(given)
    if type(given) is not int or column.first is None or given - column.first >= steps:
        return None
    wrong = given - column.first if given >= column.first else None
    if wrong is None and given >= 0:
        return None  # step 0 of steps that are counted from 1
    return _ended(wrong, [(1 if wrong is None or at < wrong else -1, at != wrong) for at in range(steps)])


def _ended(wrong: int | None, values: Sequence[tuple[int, bool]]) -> Walk:
    """Of each step, in order: its label, and whether it only follows from where the first error is."""
    ending = Inspection.Ending.SOLVED if wrong is None else Inspection.Ending.FOUND_ERROR
    labels = (Label(index, value, is_filled) for index, (value, is_filled) in enumerate(values))
    return Walk(ending.value, wrong, tuple(labels))


def _said(column: Column, info: Mapping[str, Any]) -> str | None:
    value = info.get(column.name)
    return None if value is None else column.means.get(json.dumps(value))
