"""Session files of goose (`.jsonl`): a line about the session, then a line for each message."""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.fields import mapping
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from contract import jsontext

SHAPE = "lines of a session: the first with `working_dir` and `description`, the others messages"


def _accepts(row: Json) -> bool:
    first = mapping(row[0]) if type(row) is list and row else {}
    return "working_dir" in first and "description" in first and "role" not in first


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not list or len(row) < 2:
        raise BadRow(f"The record is {jsontext.describe(row)} without messages.", f"{SHAPE}.")
    yield chat_trajectory(Chat({"info": mapping(row[0])}, row[1:], ()))


FORMAT = Format(
    name="goose",
    title="goose session",
    shape=SHAPE,
    keys=("[].working_dir [].description",),
    accepts=_accepts,
    read=_read,
)
