"""Sessions of Google's Agent Development Kit: `events` by author, with Gemini contents. All agents of a session are one policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import (
    count,
    duration_between,
    first_of,
    mapping,
    number,
    required_list,
    text,
)
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from apps.ingest.traces.payloads import read_payload
from contract import jsontext

SHAPE = "`events` with `author` and `content`, whose `parts` are Gemini's"


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    conversation = Conversation()
    model, before = "", None
    for event in map(mapping, required_list(row, "events")):
        at = number(event.get("timestamp"))
        if event.get("partial") is not True:  # streamed chunks are repeated in full
            _add(conversation, event, duration_between(before, at))
        model = text(first_of(event, "modelVersion", "model_version")) or model
        before = before if at is None else at
    yield conversation.trajectory(
        environment=text(first_of(row, "appName", "app_name")),
        policy=model,
        id=text(row.get("id")),
        info={"state": row["state"]} if row.get("state") else {},
    )


def _add(conversation: Conversation, event: dict[str, Any], seconds: float | None) -> None:
    author = text(event.get("author"))
    role = "user" if author == "user" else "assistant"
    content = mapping(event.get("content"))
    for message in read_payload({**content, "role": role}, role).messages if content.get("parts") else ():
        step = conversation.add({**message, "name": author} if message["role"] == "assistant" else message)
        if step:
            usage = mapping(first_of(event, "usageMetadata", "usage_metadata"))
            step.prompt_tokens = count(first_of(usage, "promptTokenCount", "prompt_token_count"))
            step.completion_tokens = count(first_of(usage, "candidatesTokenCount", "candidates_token_count"))
            step.seconds = seconds
            step.error = text(first_of(event, "errorMessage", "error_message")) or None


FORMAT = Format(
    name="adk",
    title="Google ADK session",
    shape=SHAPE,
    keys=("events.author events.invocationId", "events.author events.invocation_id"),
    read=_read,
)
