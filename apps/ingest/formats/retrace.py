"""Retrace's own JSON Lines, rich form: as written by rollouts and exports, read back without loss."""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.records import Json, TrajectoryRecord
from contract.values import text


def _accepts(row: Json) -> bool:
    if type(row) is not dict or type(row.get("steps")) is not list:
        return False
    steps = row["steps"]
    return text(row.get("format")).startswith("retrace/") or (
        type(row.get("task")) is dict and bool(steps) and type(steps[0]) is dict and "message" in steps[0]
    )


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    yield TrajectoryRecord.from_json(row)


FORMAT = Format(
    name="retrace",
    title="Retrace JSON Lines",
    shape="`task` with a `key`, and `steps` with `context` and `message`",
    keys=("format steps", "task steps.message"),
    accepts=_accepts,
    read=_read,
)
