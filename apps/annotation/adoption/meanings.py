"""What the columns of an imported file mean as judgements, as a researcher said it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, TypeVar

from apps.annotation.models import Inspection, Queue

T = TypeVar("T")

BOTH_BAD = "both_bad"
WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
"""A whole number, as text."""
ANSWERS = {
    Queue.Kind.PAIRWISE: ("3", "2", "1", "0", BOTH_BAD, "-1", "-2", "-3"),
    Queue.Kind.RATING: ("1", "-1"),
    Queue.Kind.STEPS: ("1", "0", "-1"),
}
"""What a value may mean: a grade in favour of the first side; a thumb; the label of a step."""
UNMISTAKABLE = {"tie": "0", "both_bad": BOTH_BAD, "bothbad": BOTH_BAD, "tie (bothbad)": BOTH_BAD}
"""Words that mean one thing wherever they are used."""
NAMES_OF_SIDES = ("model", "response", "answer", "output", "completion", "assistant", "conversation")


@dataclass(frozen=True)
class Column:
    """One column that says verdicts."""

    name: str
    means: Mapping[str, str]
    """A value, as JSON -> one of ANSWERS. What is not among them says nothing."""
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
        """Who says what this column says there; empty where nothing names them: all such judgements are one annotator's."""
        named = info.get(self.who)
        parts = (str(named) if named not in (None, "") else "", column.name if column.is_somebody else "")
        return " ".join(filter(None, parts))


class Grade(NamedTuple):
    """Of a pair, in favour of its first side."""

    strength: int
    both_bad: bool = False

    @property
    def turned(self) -> Grade:
        """The same of the pair the other way round."""
        return Grade(-self.strength, self.both_bad)


class Labels(NamedTuple):
    """Of a run's steps."""

    ending: str
    first_error: int | None
    values: Sequence[tuple[int, bool]]
    """Of each step, in order: its label, and whether it only follows from where the first error is."""


def grades(meanings: Meanings, info: Mapping[str, Any]) -> dict[str, Grade]:
    """What a pair's record says, by annotator: the first column of each that says something."""
    return _by_annotator(meanings, info, lambda said: Grade(0, True) if said == BOTH_BAD else Grade(int(said)))


def thumbs(meanings: Meanings, info: Mapping[str, Any]) -> dict[str, int]:
    """What a run's record says of it, by annotator: +1 or −1."""
    return _by_annotator(meanings, info, int)


def labels(meanings: Meanings, info: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, Labels]:
    """What a run's record says of its steps, by annotator; `steps` are what was noted with each."""
    found: dict[str, Labels] = {}
    for column in meanings.columns:
        said = _labelled(column, steps) if column.of_steps else _first_error(column, info, len(steps))
        if said:
            found.setdefault(meanings.annotator(column, info), said)
    return found


def _labelled(column: Column, steps: Sequence[Mapping[str, Any]]) -> Labels | None:
    """None unless every step up to the first bad one has a label."""
    values = [_said(column, step) for step in steps]
    wrong = next((index for index, value in enumerate(values) if value == "-1"), None)
    if not values or None in values[: wrong if wrong is not None else None]:
        return None
    return _ended(wrong, [(int(value), False) if value is not None else (-1, True) for value in values])


def _first_error(column: Column, info: Mapping[str, Any], steps: int) -> Labels | None:
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


def _ended(wrong: int | None, values: Sequence[tuple[int, bool]]) -> Labels:
    ending = Inspection.Ending.SOLVED if wrong is None else Inspection.Ending.FOUND_ERROR
    return Labels(ending, wrong, values)


def _by_annotator(meanings: Meanings, info: Mapping[str, Any], read: Callable[[str], T]) -> dict[str, T]:
    found: dict[str, T] = {}
    for who, said in _all_said(meanings, info):
        found.setdefault(who, read(said))
    return found


def _all_said(meanings: Meanings, info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for column in meanings.columns:
        if (said := _said(column, info)) is not None:
            yield meanings.annotator(column, info), said


def _said(column: Column, info: Mapping[str, Any]) -> str | None:
    value = info.get(column.name)
    return None if value is None else column.means.get(json.dumps(value))


def suggested(kind: str, value: str, sides: tuple[str, str] | None) -> str:
    """What a value, as JSON, can only mean; empty where a person has to say it."""
    said = json.loads(value)
    if kind != Queue.Kind.PAIRWISE or not sides or not isinstance(said, str):
        return ""
    for side, grade in zip(sides, ("2", "-2"), strict=True):
        if said in (f"{what}_{side}" for what in NAMES_OF_SIDES) or (said == side and not side.isdecimal()):
            return grade
    return UNMISTAKABLE.get(said.lower(), "")
