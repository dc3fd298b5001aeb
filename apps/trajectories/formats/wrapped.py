"""Records of another format under one key of an object: `{"results": […]}`, `{"trajectories": […], "config": {…}}`.

Such an object is one record, so all of it must fit into one; and one bad element refuses it whole, by its number.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.trajectories import formats
from apps.trajectories.formats import Format
from apps.trajectories.records import BadRow, Json, TrajectoryRecord


def _inside(row: Json) -> tuple[list[Json], Format] | None:
    """The first list of records that some format knows, and that format."""
    if type(row) is not dict:
        return None
    for value in row.values():
        if type(value) is list and value and type(value[0]) is dict:
            for format in formats.known():
                if format.name != FORMAT.name and format.recognises(value[0]):
                    return value, format
    return None


def _recognises(row: Json) -> bool:
    return _inside(row) is not None


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    found = _inside(row)
    if found is None:
        raise BadRow("No key holds a list of records.", f"{FORMAT.shape}.")
    records, format = found
    for place, record in enumerate(records, start=1):
        try:
            yield from format.read(record, filename)
        except BadRow as refusal:
            raise BadRow(f"Element {place}: {refusal.reason}", refusal.expected) from None


FORMAT = Format(
    name="wrapped",
    title="Records in an object",
    shape="an object, one of whose keys holds a list of records in one of the other formats",
    recognises=_recognises,
    read=_read,
    general=True,
)
