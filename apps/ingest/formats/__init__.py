"""The formats that can be imported, one file each. Adding a format is adding a file here that defines `FORMAT`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from apps.ingest.files.raw_records import RawRow
from apps.ingest.normalization.roles import role_of
from apps.ingest.records import Json, TrajectoryRecord

Row = Json
"""A parsed record of a file: an object, or a list of messages."""


@dataclass(frozen=True)
class Format:
    """How the files of one tool are recognized and read."""

    name: str
    """Stored with the batch and, as its source, with each trajectory."""

    title: str
    """What people call it."""

    shape: str
    """What one record looks like, in a line, for the message to somebody whose file is something else."""

    recognizes: Callable[[Row], bool]
    """Whether a record is of this format. The answers of the specific formats exclude each other."""

    read: Callable[[Row, str], Iterator[TrajectoryRecord]]
    """The trajectories of a record; the second argument is the file's name. Raises BadRow."""

    gather: Callable[[Iterator[RawRow], int], Iterator[RawRow]] | None = None
    """Puts together what lies in several records of a file; the second argument is the most bytes that one may have."""

    judges: Callable[[Row], tuple[str, bool]] | None = None
    """Of reports, which hold no runs but outcomes of runs: the instance that a record is about, and whether it was resolved. Raises BadRow."""

    general: bool = False
    """Asked last: a shape so common that the specific formats share it."""


class UnknownFormat(ValueError):
    """No format recognizes the file. The message says what is known and what was seen."""


@cache
def known() -> tuple[Format, ...]:
    """Every format, the general ones last."""
    found: list[Format] = [
        importlib.import_module(f"{__name__}.{module.name}").FORMAT for module in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted(found, key=lambda format: (format.general, format.name)))


def named(name: str) -> Format:
    """The format of that name. Raises KeyError."""
    return {format.name: format for format in known()}[name]


def holds_no_runs(name: str) -> bool:
    """Whether files of the format of that name hold outcomes alone."""
    return any(format.judges for format in known() if format.name == name)


def titled(name: str) -> str:
    """What people call the format of that name; the name itself where the format is gone."""
    return next((format.title for format in known() if format.name == name), name)


def recognize(rows: list[Row]) -> Format:
    """The format of a file, from its first readable records. Raises UnknownFormat."""
    for row in rows:
        for format in known():
            if format.recognizes(row):
                return format
    listed = "\n".join(f"• {format.title}: {format.shape}." for format in known())
    seen = " ".join(filter(None, (_seen(rows), _advice(rows[0] if rows else None))))
    raise UnknownFormat(f"No known format. {seen} One of these was expected:\n{listed}")


def _advice(row: Row) -> str:
    """What to do with a record that is nearly something."""
    if not isinstance(row, dict):
        return ""
    if "action" in row:
        return (
            'This looks like a single step: write all steps of a run into one record (`{"task_id": …, "steps": […]}`).'
        )
    if _is_list_of_objects(row.get("steps")) and "action" not in row["steps"][0]:
        return 'Its `steps` have no `action`: a step is {"obs": …, "action": …}.'
    for key, value in row.items():
        speaker = value[0].get("role", value[0].get("from")) if _is_list_of_objects(value) else None
        if isinstance(speaker, str) and not role_of(value[0]):
            return f"`{key[:40]}` begins with a message of “{speaker[:40]}”, whom no format knows."
    if "message" in row or "role" in row:
        return 'This looks like a single message: write all messages of a run into one record (`{"messages": […]}`).'
    return ""


def _is_list_of_objects(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _seen(rows: list[Row]) -> str:
    if not rows:
        return "None of the first records is JSON."
    row = rows[0]
    if isinstance(row, dict):
        keys = ", ".join(f"`{key[:40]}`" for key in list(row)[:12])
        return f"The first record has the keys {keys}." if keys else "The first record is an empty object."
    if isinstance(row, list):
        inside = _seen(row[:1]).removeprefix("The first record").strip() if row else "is empty."
        return f"The first record is a list; its first element {inside}"
    return f"The first record is {row!r:.60}."
