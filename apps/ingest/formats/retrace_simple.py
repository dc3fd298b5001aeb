"""Retrace's own JSON Lines, simple form: a task id, an instruction, and steps of observation, action, reward, and done.

Many data sets have this form under other names, or as parallel lists of actions and observations; those are read too.
"""

from __future__ import annotations

from apps.ingest.formats import Format
from apps.ingest.normalization.actions import PARALLEL, STEPS, moves_in, read_moves
from apps.ingest.normalization.fields import text
from apps.ingest.records import Json


def _accepts(row: Json) -> bool:
    if type(row) is not dict or text(row.get("format")).startswith("retrace/"):
        return False
    return moves_in(row) is not None or ("task_id" in row and row.get("steps") == [])


FORMAT = Format(
    name="retrace-simple",
    title="Retrace JSON Lines, simple form",
    shape="`task_id`, `instruction`, and `steps` (or `trajectory`) with `obs`, `action`, `reward` and `done`",
    keys=(
        *STEPS,
        *(f"actions {name}" for name in PARALLEL),
        "intermediate_steps",
        "task_id steps",
    ),
    accepts=_accepts,
    read=read_moves,
)
