"""Sessions of the Codex CLI (`rollout-….jsonl`): one line per item; a file is one trajectory.

Items are those of OpenAI's Responses API; events, which repeat them for display, are ignored except for token counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import count, duration_between, first_of, mapping, seconds_of, text
from apps.ingest.normalization.roles import role_of
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord, numbered, read_each, text_of
from contract import jsontext

EXPECTED = "Lines with `type` and `payload`, among them `response_item`, as the Codex CLI keeps them."
TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
OF_SESSION = ("cwd", "cli_version", "originator", "git")
MADE_UP = ("<user_instructions>", "<environment_context>", "<permissions", "# AGENTS.md instructions")
"""Beginnings of user messages that the CLI puts before the first prompt. Its instructions, which differ between its versions, are other roles'."""


def _accepts(row: Json) -> bool:
    first = mapping(row[0]) if type(row) is list and row else {}
    return text(first.get("type")) in TYPES and type(first.get("payload")) is dict


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not list:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    yield from read_each(numbered("Session", _sessions([mapping(line) for line in row])), _trajectory)


def _sessions(lines: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The lines of each session, for concatenated files. A resumed session repeats the
    beginning of the earlier one, including its metadata, so only a later start time marks a new session."""
    sessions: list[list[dict[str, Any]]] = [[]]
    session_start = ""
    for line in lines:
        details = mapping(line.get("payload")) if line.get("type") == "session_meta" else {}
        if details and session_start and text(details.get("timestamp")) > session_start:
            sessions.append([])
        session_start = max(session_start, text(details.get("timestamp")))
        sessions[-1].append(line)
    return sessions


def _trajectory(lines: list[dict[str, Any]]) -> Iterator[TrajectoryRecord]:
    conversation = Conversation()
    session: dict[str, Any] = {}
    model, previous_time = "", None
    for line in lines:
        payload, at = mapping(line.get("payload")), seconds_of(line.get("timestamp"))
        if line.get("type") == "session_meta" and not session:
            session = payload
            _instruct(conversation, payload)
        elif line.get("type") == "turn_context":
            model = text(payload.get("model")) or model
        elif payload.get("type") == "token_count" and conversation.steps:
            used = mapping(mapping(payload.get("info")).get("last_token_usage"))
            step = conversation.steps[-1]
            step.prompt_tokens = count(used.get("input_tokens")) or step.prompt_tokens
            step.completion_tokens = count(used.get("output_tokens")) or step.completion_tokens
        elif line.get("type") == "response_item" and (message := _message(payload)):
            step_made = conversation.add(message)
            if step_made:
                step_made.seconds = duration_between(previous_time, at)
            previous_time = previous_time if at is None else at
    if not conversation.steps and not conversation.waiting:
        raise BadRow("The session holds no items.", EXPECTED)
    asked = [message for message in conversation.opening if message["role"] == "user"]
    prompt = [message for message in asked if not text_of(message.get("content")).startswith(MADE_UP)]
    yield conversation.trajectory(
        task_messages=prompt,
        policy=model,
        id=text(session.get("id")),
        info={key: session[key] for key in OF_SESSION if session.get(key)},
    )


def _instruct(conversation: Conversation, session: dict[str, Any]) -> None:
    base = mapping(session.get("base_instructions")).get("text")
    instructions = first_of({"base": base, **session}, "base", "instructions")
    if type(instructions) is str and instructions:
        conversation.add({"role": "system", "content": instructions})


def _message(item: dict[str, Any]) -> Message | None:
    """An item as a chat message; None if it has no content."""
    kind = text(item.get("type"))
    if kind == "reasoning":
        summary = first_of(item, "content") or item.get("summary")
        return {"type": kind, "summary": summary} if summary else None
    return item if role_of(item) else None


FORMAT = Format(
    name="codex",
    title="Codex CLI session",
    shape="the lines of a session, with `type` and `payload`",
    keys=("[].type [].payload",),
    accepts=_accepts,
    read=_read,
)
