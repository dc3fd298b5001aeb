"""Finds columns of imported files that may hold judgments: those that no format defines, which are stored with their trajectories.

Meanings aren't guessed, since tools encode the same verdict in contradictory ways (1 and 2, 0 and 1, names). See `meanings`.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db.models import QuerySet

from apps.accounts.models import Workspace
from apps.annotation.kinds.meanings import WHOLE, Columns, Info, Survey
from apps.annotation.queues.sources import Selection, selected
from apps.common.text_encoding import is_storable
from apps.ingest.formats.judged_pairs import COMPARED, NAMES
from apps.trajectories.models import Step, Trajectory

LOOKED_AT = 3_000
"""Number of trajectories to examine: enough to see every value that matters."""
STEPS_LOOKED_AT = 20_000
MAX_VALUES = 12
"""Maximum number of distinct values of a verdict column; with more it's a text, a name, or a measurement."""
MAX_NAMES = 500
MAX_VALUE_LENGTH = 60
"""Maximum length of a value in characters."""

SOMEBODY = re.compile("annotat|judge|rater|labell?er|worker|person|human|expert|reviewer|user")
"""Common names of numbered columns that each hold one annotator's verdict."""


OF_ROLLOUT = ("sample", "seed")
"""What Retrace notes about a rollout: which of a task's it is, and the seed of its batch."""


class Pair(NamedTuple):
    """Two trajectories from one record of the file."""

    a: Trajectory
    b: Trajectory

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the two sides in the file."""
        return self.a.info[COMPARED]["side"], self.b.info[COMPARED]["side"]

    @property
    def info(self) -> Info:
        """The record's columns, which both trajectories carry. If a side is called `chosen`, that is a verdict, too."""
        columns = {key: value for key, value in self.a.info.items() if key in self.b.info and key != COMPARED}
        return {NAMES[0]: NAMES[0], **columns} if self.sides == NAMES else columns


def survey(workspace: Workspace, selection: Selection) -> Survey:
    """Examine the first trajectories of the selection. Raises BadFilter."""
    trajectories = list(trajectories_of(workspace, selection)[:LOOKED_AT])
    pairs = [pair for pair in pairs_of(trajectories) if pair]
    if pairs:
        columns = _columns(pair.info for pair in pairs)
        return Survey(
            len(trajectories), pairs[0].sides, _alike(columns, least=1, sides=pairs[0].sides), (), (), _names(columns)
        )
    columns = _columns(trajectory.info for trajectory in trajectories)
    steps = Step.objects.filter(trajectory__in=[trajectory.pk for trajectory in trajectories]).order_by(
        "trajectory", "index"
    )
    labels = _alike(_columns(steps.values_list("info", flat=True)[:STEPS_LOOKED_AT]))
    return Survey(len(trajectories), None, _alike(columns), labels, _indexes(columns), _names(columns))


def trajectories_of(workspace: Workspace, selection: Selection) -> QuerySet[Trajectory]:
    """The selected trajectories with their extra columns, oldest first. Raises BadFilter."""
    return selected(workspace, selection).order_by("pk").only("task", "course", "info", "step_count")


def pairs_of(trajectories: Iterable[Trajectory]) -> Iterator[Pair | None]:
    """The pairs among these trajectories, each in its original order; None for a trajectory whose other side is missing."""
    sides: dict[str, dict[str, Trajectory]] = defaultdict(dict)
    for trajectory in trajectories:
        match trajectory.info.get(COMPARED):
            case {"pair": str(pair), "side": str(side)}:
                sides[pair][side] = trajectory
    for pair_sides in sides.values():
        yield Pair(*(pair_sides[side] for side in sorted(pair_sides))) if len(pair_sides) == 2 else None


@dataclass
class _Column:
    """The values of one column."""

    counts: Counter[str] = field(default_factory=Counter)
    whole_numbers: int = 0
    fractions: int = 0
    is_short: bool = True
    """Whether it holds only short text, booleans, and numbers."""

    def add(self, value: Any) -> None:
        if value is None:
            return
        if type(value) not in (str, bool, int, float) or len(str(value)) > MAX_VALUE_LENGTH:
            self.is_short = False
        elif len(self.counts) <= MAX_NAMES:
            self.counts[json.dumps(value)] += 1
            self.whole_numbers += type(value) is int or (type(value) is str and bool(WHOLE.fullmatch(value)))
            self.fractions += type(value) is float and not value.is_integer()


def _columns(infos: Iterable[Info]) -> dict[str, _Column]:
    """Columns of short values, by name."""
    columns: dict[str, _Column] = defaultdict(_Column)
    for info in infos:
        is_rollout = all(type(info.get(key)) is int for key in OF_ROLLOUT)
        for key, value in info.items():
            if is_storable(key) and not (is_rollout and key in OF_ROLLOUT):  # the queue's recipe stores column names
                columns[key].add(value)
    return {name: column for name, column in columns.items() if column.is_short and column.counts}


def _alike(
    columns: Mapping[str, _Column], *, least: int = 2, sides: tuple[str, str] | None = None
) -> tuple[Columns, ...]:
    """Groups of columns with the same small set of values, with at least `least` of them. Columns whose names differ only by a number form
    one group, unless the numbers are those of the two `sides`: what is good for one side is bad for the other.

    With many values, most must occur repeatedly; a boolean may occur once.
    """
    together: dict[str, list[str]] = defaultdict(list)
    for name, column in columns.items():
        is_repeated = column.counts.total() >= 2 * len(column.counts) or least == 1
        if {*column.counts} <= {"true", "false"} or (least <= len(column.counts) <= MAX_VALUES and is_repeated):
            together[name if _is_of_side(name, columns, sides) else re.sub(r"\d+", "#", name)].append(name)
    groups = []
    for names in together.values():
        counts = sum((columns[name].counts for name in names), Counter[str]())
        groups.append(Columns(tuple(names), tuple(sorted(counts.items(), key=lambda entry: _in_order(entry[0])))))
    return tuple(groups)


def _is_of_side(name: str, columns: Mapping[str, _Column], sides: tuple[str, str] | None) -> bool:
    """Whether this column and another hold the same thing for one side each, like `score_0` and `score_1`. Annotators may be numbered, too."""
    stem = name.rstrip("0123456789")
    numbers = {column.removeprefix(stem) for column in columns if column.startswith(stem)}
    return sides is not None and numbers == {*sides} and not SOMEBODY.search(stem)


def _in_order(value: str) -> tuple[bool, float, str]:
    parsed = json.loads(value)
    return (True, 0.0, parsed) if isinstance(parsed, str) else (False, float(parsed), value)


def _indexes(columns: Mapping[str, _Column]) -> tuple[str, ...]:
    return tuple(name for name, column in columns.items() if column.whole_numbers == column.counts.total())


def _names(columns: Mapping[str, _Column]) -> tuple[str, ...]:
    """Columns that may name annotators: their values repeat, since a name in only one record identifies the record."""
    return tuple(
        name
        for name, column in columns.items()
        if len(column.counts) <= MAX_NAMES
        and column.counts.total() > len(column.counts)
        and not column.fractions
        and name != NAMES[0]
        and not {*column.counts} <= {"true", "false"}
    )
