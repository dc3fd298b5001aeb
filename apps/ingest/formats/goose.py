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
    yield chat_trajectory(Chat({"info": mapping(row[0])}, list(map(_readable, row[1:])), ()))


def _readable(message: Json) -> Json:
    """The message without calls that goose couldn't parse: it keeps only the error, which is also their result."""
    content = mapping(message).get("content")
    if type(content) is not list:
        return message
    return {**message, "content": [part for part in content if not _is_unparsed(mapping(part))]}


def _is_unparsed(part: dict[str, Json]) -> bool:
    return part.get("type") == "toolRequest" and not mapping(mapping(part.get("toolCall")).get("value")).get("name")


FORMAT = Format(
    name="goose",
    title="goose session",
    shape=SHAPE,
    keys=("[].working_dir [].description",),
    accepts=_accepts,
    read=_read,
)
