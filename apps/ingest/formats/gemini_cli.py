"""Sessions of the Gemini CLI (`chats/session-….json`): messages of “user” and “gemini”, each answer with its thoughts and its calls' results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import (
    count,
    duration_between,
    mapping,
    optional_list,
    required_list,
    seconds_of,
    text,
)
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from apps.ingest.traces.payloads import read_payload
from contract import jsontext

SHAPE = "`sessionId` and `messages` with `type` “user” or “gemini”"


def _accepts(row: Json) -> bool:
    messages = mapping(row).get("messages")
    types = {text(mapping(message).get("type")) for message in messages} if type(messages) is list else set()
    return "sessionId" in mapping(row) and "gemini" in types


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    conversation = Conversation()
    model, before = "", None
    for entry in map(mapping, required_list(row, "messages")):
        at = seconds_of(entry.get("timestamp"))
        if entry.get("type") == "user":
            conversation.add({"role": "user", "content": _words(entry.get("content"))})
        elif entry.get("type") == "gemini":
            step = conversation.add(_answer(entry))
            for message in _results(entry):
                conversation.add(message)
            tokens = mapping(entry.get("tokens"))
            if step:
                step.prompt_tokens, step.completion_tokens = count(tokens.get("input")), count(tokens.get("output"))
                step.seconds = duration_between(before, at)
            model = text(entry.get("model")) or model
        before = before if at is None else at
    yield conversation.trajectory(policy=model, id=text(row.get("sessionId")))


def _words(content: Json) -> Json:
    """Text, or parts in Gemini's form."""
    if type(content) is not list:
        return text(content)
    messages = read_payload([{"role": "user", "parts": content}], "user").messages
    return messages[0].get("content") if messages else ""


def _answer(entry: dict[str, Any]) -> Message:
    thoughts = map(mapping, optional_list(entry, "thoughts"))
    summaries = (
        ": ".join(filter(None, (text(thought.get("subject")), text(thought.get("description")))))
        for thought in thoughts
    )
    calls = [
        {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
        for call in map(mapping, optional_list(entry, "toolCalls"))
    ]
    content = _words(entry.get("content"))
    message: Message = {"role": "assistant", "content": content or (None if calls else ""), "tool_calls": calls}
    return message | ({"reasoning_content": reasoning} if (reasoning := "\n\n".join(summaries)) else {})


def _results(entry: dict[str, Any]) -> Iterator[Message]:
    for call in map(mapping, optional_list(entry, "toolCalls")):
        parts = call.get("result")
        responses = (
            [mapping(mapping(part).get("functionResponse")).get("response") for part in parts or ()]
            if type(parts) is list
            else []
        )
        response = next((candidate for candidate in responses if candidate is not None), parts)
        content = mapping(response).get("output", response)
        failed = call.get("status") in ("error", "cancelled")
        if content is not None:
            yield {"role": "tool", "tool_call_id": call.get("id"), "content": content, "is_error": failed}


FORMAT = Format(
    name="gemini-cli",
    title="Gemini CLI session",
    shape=SHAPE,
    keys=("sessionId messages.type",),
    accepts=_accepts,
    read=_read,
)
