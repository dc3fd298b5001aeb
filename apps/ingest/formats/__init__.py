"""The formats that can be imported, a module each, and which of them a record is. Adding one is adding a module that defines `FORMAT`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from apps.ingest.files.raw_records import RawRow
from apps.ingest.records import Json, TrajectoryRecord

Row = Json
"""A parsed record of a file: an object, or a list of messages."""

FEW = 8
"""Elements of a list, or values of an object, that are looked into for a key."""

LISTED = "[]."
"""How a key begins that is looked for in the elements of a record that is a list."""


@dataclass(frozen=True)
class Format:
    """How the files of one tool are recognized and read."""

    name: str
    """Stored with the batch and, as its source, with each trajectory."""

    title: str
    """What people call it."""

    shape: str
    """What one record looks like, in a line."""

    keys: tuple[str, ...]
    """What tells a record of it: alternatives, each the keys that must all be there, as in “reward info.task”. A key may lie inside
    objects and lists; `*` is any key. A record that has none of the alternatives is never of this format."""

    read: Callable[[Row, str], Iterator[TrajectoryRecord]]
    """The trajectories of a record; the second argument is the file's name. Raises BadRow."""

    accepts: Callable[[Row], bool] | None = None
    """What keys alone don't tell, such as their values."""

    gather: Callable[[Iterator[RawRow], int], Iterator[RawRow]] | None = None
    """Puts together what lies in several records of a file; the second argument is the most bytes that one may have."""

    judges: Callable[[Row], tuple[str, bool]] | None = None
    """Of reports, which hold no trajectories but outcomes of trajectories: the instance that a record is about, and whether it was resolved. Raises BadRow."""

    general: bool = False
    """A shape so common that records of specific formats have it: yields to all of them."""

    yields_to: tuple[str, ...] = ()
    """Formats that win where a record could be of them as well, also general ones."""

    def recognizes(self, row: Row) -> bool:
        """Whether a record could be of this format; another may win, see `format_of`."""
        return any(all(has(row, key) for key in keys.split()) for keys in self.keys) and (
            self.accepts is None or self.accepts(row)
        )

    def gives_way(self, other: Format) -> bool:
        """Whether the other wins where a record could be of both."""
        if self.name in other.yields_to:
            return False
        return other.name in self.yields_to or (self.general and not other.general)


class UnknownFormat(ValueError):
    """A file of no format that is known, or of none alone. The message says what was seen, and what comes near."""


class AmbiguousFormat(UnknownFormat):
    """Several formats recognize a record, and none is declared to win."""

    def __init__(self, claimants: list[Format]) -> None:
        super().__init__(f"Could be {' or '.join(format.title for format in claimants)}")


@cache
def known() -> tuple[Format, ...]:
    """Every format, by name."""
    found: list[Format] = [
        importlib.import_module(f"{__name__}.{module.name}").FORMAT for module in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted(found, key=lambda format: format.name))


def format_of(row: Row, *, besides: str = "") -> Format | None:
    """The format of a record, of those that aren't called `besides`; None where no format recognizes it. Raises AmbiguousFormat."""
    claimants: list[Format] = []
    for format in sorted(known(), key=lambda format: format.general):
        # Whoever could not win is not asked: general formats look at more than others do.
        if format.name != besides and not any(map(format.gives_way, claimants)) and format.recognizes(row):
            claimants.append(format)
    winners = [format for format in claimants if not any(map(format.gives_way, claimants))]
    if len(winners) > 1 or (claimants and not winners):
        raise AmbiguousFormat(winners or claimants)
    return winners[0] if winners else None


def named(name: str) -> Format:
    """The format of that name. Raises KeyError."""
    return {format.name: format for format in known()}[name]


def holds_no_runs(name: str) -> bool:
    """Whether files of the format of that name hold outcomes alone."""
    return any(format.judges for format in known() if format.name == name)


def titled(name: str) -> str:
    """What people call the format of that name; the name itself where the format is gone."""
    return next((format.title for format in known() if format.name == name), name)


def alone_or_listed(*keys: str) -> tuple[str, ...]:
    """Keys of records that are an object or a list of such objects: those of the object, and the same in a list (`[].type`)."""
    return (*keys, *(" ".join(f"{LISTED}{key}" for key in alternative.split()) for alternative in keys))


def has(row: Row, key: str) -> bool:
    """Whether a record has a key such as `info.task`, also in the first elements of lists. Only `[].` looks into a record that is a list itself."""
    if type(row) is not (list if key.startswith(LISTED) else dict):
        return False
    values = [row]
    names = key.removeprefix(LISTED).split(".")
    for place, name in enumerate(names):
        objects = [each for value in values for each in _objects(value)][: FEW * FEW]
        if any(".".join(names[place:]) in each for each in objects):  # tables have dots in the names of columns
            return True
        if name == "*":
            values = [value for each in objects for value in list(each.values())[:FEW]]
        else:
            values = [each[name] for each in objects if name in each]
    return key.endswith("*") and bool(values)


def _objects(value: Json) -> list[dict[str, Json]]:
    """The value, or the first objects of a list, or of lists in a list."""
    if type(value) is dict:
        return [value]
    if type(value) is not list:
        return []
    inside = [each for outer in value[:FEW] for each in (outer[:FEW] if type(outer) is list else [outer])]
    return [each for each in inside if type(each) is dict]
