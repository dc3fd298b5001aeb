"""Reports of SWE-bench's harness and similar ones: which instances were resolved. Trajectories imported earlier get these outcomes.

A report on many instances lists them in `resolved_ids` and `unresolved_ids` (older ones in `resolved`); one on a single instance has its name as
the key; one instance per line, or a table of them, is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.files.raw_records import RawRow
from apps.ingest.formats import Format
from apps.ingest.normalization.evaluation_reports import verdicts_in
from apps.ingest.normalization.fields import flag, mapping, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from contract import jsontext

SHAPE = "`resolved_ids` and `unresolved_ids`, or `instance_id` and `resolved`: outcomes of trajectories that are here already"
LISTS = ("resolved_ids", "unresolved_ids")
OLDER = frozenset({"no_generation", "no_logs", "generated", "applied"})
"""Keys beside `resolved` in older reports."""
OF_PATCH = frozenset({"patch_is_None", "patch_exists", "patch_successfully_applied", "tests_status"})
VERDICT = {"instance_id", "resolved"}


def _accepts(row: Json) -> bool:
    details = mapping(row)
    if details.keys() == VERDICT or any(_is_names(details.get(key)) for key in LISTS):
        return True
    if _is_names(details.get("resolved")):
        return not OLDER.isdisjoint(details)
    return bool(details) and all(map(_is_of_one, details.values()))


def _is_names(value: Json) -> bool:
    return type(value) is list and all(type(name) is str for name in value)


def _is_of_one(entry: Json) -> bool:
    return type(mapping(entry).get("resolved")) is bool and not OF_PATCH.isdisjoint(entry)


def _grouped(rows: Iterator[RawRow], limit: int) -> Iterator[RawRow]:
    """Splits reports into one record per instance."""
    position = 0
    for row in rows:
        for body in [row.body] if row.problem else _records(row.body):
            yield row._replace(position=position, body=body)
            position += 1


def _records(body: bytes) -> list[bytes]:
    try:
        row = jsontext.loads(body)
    except jsontext.UnreadableJSON:
        return [body]
    outcomes = {} if mapping(row).keys() == VERDICT else verdicts_in(row)
    verdicts = ({"instance_id": instance, "resolved": resolved} for instance, resolved in outcomes.items())
    return [jsontext.dumps(verdict) for verdict in verdicts] or [body]


def _judges(row: Json) -> tuple[str, bool]:
    details: dict[str, Any] = mapping(row)
    instance, resolved = text(details.get("instance_id")), flag(details.get("resolved"))
    if not instance or resolved is None:
        both = instance and details.get("resolved", "") is None
        reason = (
            f"The report lists {instance} as both resolved and unresolved."
            if both
            else "It doesn't say of any instance whether it was resolved."
        )
        raise BadRow(reason, f"{SHAPE}.")
    return instance, resolved


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    yield from ()


FORMAT = Format(
    name="swe-bench-report",
    title="SWE-bench report",
    shape=SHAPE,
    keys=(
        "instance_id resolved",
        *LISTS,
        *(f"resolved {name}" for name in OLDER),
        *(f"*.resolved *.{name}" for name in OF_PATCH),
    ),
    accepts=_accepts,
    read=_read,
    gather=_grouped,
    judges=_judges,
)
