"""opencode sessions, as `opencode export` writes them: messages of `info` and `parts`; a call's part includes its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import count, duration_between, mapping, number, required_list, text
from apps.ingest.normalization.parts import BOUNDS, kind_of
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "`messages`, each with an `info` that has a `role`, and `parts`"
ASIDE = frozenset({"snapshot", "patch", "compaction", "retry", "agent", "subtask"})
OF_SESSION = ("title", "directory", "version")


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    session = mapping(row.get("info"))
    conversation = Conversation()
    model = ""
    for entry in map(mapping, required_list(row, "messages")):
        details = mapping(entry.get("info"))
        steps_before = len(conversation.steps)
        conversation.add(_message(details, required_list(entry, "parts")))
        if details.get("role") == "assistant" and len(conversation.steps) > steps_before:
            model = text(details.get("modelID")) or model
            _describe(conversation, steps_before, details)
    yield conversation.trajectory(
        policy=model,
        id=text(session.get("id")),
        info={key: session[key] for key in OF_SESSION if session.get(key)},
    )


def _message(details: dict[str, Any], parts: list[Json]) -> Message:
    visible = [part for part in parts if kind_of(part) not in ASIDE]
    if (problem := _problem_of(details)) and all(kind_of(part) in BOUNDS for part in visible):  # nothing was answered
        return {"role": details.get("role"), "content": problem, "loss": False}
    return {"role": details.get("role"), "content": [_plain(mapping(part)) for part in visible]}


def _plain(part: dict[str, Any]) -> Json:
    """A part without display data: its id, its times, its source."""
    if part.get("type") in ("text", "reasoning"):
        return {"type": part["type"], "text": part.get("text")}
    if part.get("type") == "file" and text(part.get("mime")).startswith("image/"):
        return {"type": "image_url", "image_url": {"url": part.get("url")}}
    return part


def _describe(conversation: Conversation, steps_before: int, details: dict[str, Any]) -> None:
    """Adds a message's usage to its step; if it made several steps, the usage of each is unknown."""
    if len(conversation.steps) != steps_before + 1:
        return
    step, tokens, times = conversation.steps[steps_before], mapping(details.get("tokens")), mapping(details.get("time"))
    cached = mapping(tokens.get("cache"))
    prompt = [count(tokens.get("input")), count(cached.get("read")), count(cached.get("write"))]
    step.prompt_tokens = sum(filter(None, prompt)) or None
    step.completion_tokens = count(tokens.get("output"))
    seconds = duration_between(number(times.get("created")), number(times.get("completed")))
    step.seconds = None if seconds is None else seconds / 1000
    step.error = _problem_of(details) or None


def _problem_of(details: dict[str, Any]) -> str:
    failed = mapping(details.get("error"))
    return text(mapping(failed.get("data")).get("message")) or text(failed.get("name"))


FORMAT = Format(
    name="opencode", title="opencode session", shape=SHAPE, keys=("messages.info.role messages.parts",), read=_read
)
