"""The formats that can be imported, one module each, and their recognition. To add one, add a module that defines `FORMAT`."""

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
"""How many elements of a list, or values of an object, are searched for a key."""

LISTED = "[]."
"""Prefix of keys that are looked up in the elements of a record that is a list."""


@dataclass(frozen=True)
class Format:
    """How to recognize and read the files of one tool."""

    name: str
    """Identifier stored with the batch and, as its source, with each trajectory."""

    title: str
    """Display name."""

    shape: str
    """What one record looks like, in one line."""

    keys: tuple[str, ...]
    """Keys that identify a record: alternatives, each a set of keys that must all be present, as in “reward info.task”. A key may be nested in
    objects and lists; `*` is any key. A record with none of the alternatives is never of this format."""

    read: Callable[[Row, str], Iterator[TrajectoryRecord]]
    """Yields the trajectories of a record; the second argument is the file's name. Raises BadRow."""

    accepts: Callable[[Row], bool] | None = None
    """Checks beyond the presence of keys, such as their values."""

    gather: Callable[[Iterator[RawRow], int], Iterator[RawRow]] | None = None
    """Joins what is spread over several records of a file; the second argument is the maximum size of a joined record in bytes."""

    judges: Callable[[Row], tuple[str, bool]] | None = None
    """For reports, which hold outcomes of trajectories instead of trajectories: the instance that a record is about, and whether it was
    resolved. Raises BadRow."""

    general: bool = False
    """A shape so common that records of specific formats match it too: yields to all of them."""

    yields_to: tuple[str, ...] = ()
    """Formats, including general ones, that take precedence when a record matches both."""

    def recognizes(self, row: Row) -> bool:
        """Whether a record matches this format; another may take precedence, see `format_of`."""
        return any(all(has(row, key) for key in keys.split()) for keys in self.keys) and (
            self.accepts is None or self.accepts(row)
        )

    def defers_to(self, other: Format) -> bool:
        """Whether the other format takes precedence when a record matches both."""
        if self.name in other.yields_to:
            return False
        return other.name in self.yields_to or (self.general and not other.general)


class UnknownFormat(ValueError):
    """No known format, or more than one, matches a file. The message says what was seen and what comes close."""


class AmbiguousFormat(UnknownFormat):
    """Several formats match a record, and none is declared to take precedence."""

    def __init__(self, claimants: list[Format]) -> None:
        super().__init__(f"Could be {' or '.join(format.title for format in claimants)}")


@cache
def known() -> tuple[Format, ...]:
    """Every format, sorted by name."""
    formats: list[Format] = [
        importlib.import_module(f"{__name__}.{module.name}").FORMAT for module in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted(formats, key=lambda format: format.name))


def format_of(row: Row, *, besides: str = "") -> Format | None:
    """The format of a record, leaving out the one named `besides`; None if no format matches. Raises AmbiguousFormat."""
    claimants: list[Format] = []
    for format in sorted(known(), key=lambda format: format.general):
        # Formats that can't win aren't asked: general formats examine more than others.
        if format.name != besides and not any(map(format.defers_to, claimants)) and format.recognizes(row):
            claimants.append(format)
    winners = [format for format in claimants if not any(map(format.defers_to, claimants))]
    if len(winners) > 1 or (claimants and not winners):
        raise AmbiguousFormat(winners or claimants)
    return winners[0] if winners else None


def named(name: str) -> Format:
    """The format with that name. Raises KeyError."""
    return {format.name: format for format in known()}[name]


def holds_no_trajectories(name: str) -> bool:
    """Whether files of that format hold only outcomes."""
    return any(format.judges for format in known() if format.name == name)


def titled(name: str) -> str:
    """The display name of a format; the name itself if the format no longer exists."""
    return next((format.title for format in known() if format.name == name), name)


def single_or_listed(*keys: str) -> tuple[str, ...]:
    """Keys for records that are an object or a list of such objects: the object's keys, and the same in a list (`[].type`)."""
    return (*keys, *(" ".join(f"{LISTED}{key}" for key in alternative.split()) for alternative in keys))


def has(row: Row, key: str) -> bool:
    """Whether a record has a key such as `info.task`, including in the first elements of lists. Only `[].` searches a record that is a list."""
    if type(row) is not (list if key.startswith(LISTED) else dict):
        return False
    values = [row]
    names = key.removeprefix(LISTED).split(".")
    for index, name in enumerate(names):
        objects = [item for value in values for item in _objects(value)][: FEW * FEW]
        if any(".".join(names[index:]) in item for item in objects):  # tables have dots in column names
            return True
        if name == "*":
            values = [value for item in objects for value in list(item.values())[:FEW]]
        else:
            values = [item[name] for item in objects if name in item]
    return key.endswith("*") and bool(values)


def _objects(value: Json) -> list[dict[str, Json]]:
    """The value as an object, or the first objects of a list, or of lists in a list."""
    if type(value) is dict:
        return [value]
    if type(value) is not list:
        return []
    inside = [inner for outer in value[:FEW] for inner in (outer[:FEW] if type(outer) is list else [outer])]
    return [item for item in inside if type(item) is dict]
