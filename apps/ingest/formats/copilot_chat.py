"""Chats of VS Code and GitHub Copilot, as *Chat: Export Session…* writes them, or as stored under `chatSessions` (including `.jsonl`).

If Copilot kept the model's inputs and outputs (`toolCallRounds`), they are the trajectory; otherwise it's what was displayed, which lacks tool
results.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from apps.ingest.files.raw_records import RawRow, as_one
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import first_of, mapping, number, optional_list, required_list, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "`requests`, each with a `message` and its `response`, or lines of changes to them"
_BEGUN = re.compile(rb'\s*\{\s*"kind"\s*:\s*0\b')
SET, PUSHED, DELETED = 1, 2, 3
"""Kinds of change; the first line, of kind 0, is the initial session."""
INSIDE = ("value", "text", "content", "parts", "node", "children", "result")
"""Where tool results keep their text: a tree of what was to be rendered for the model."""
SAID = ("", "markdownContent", "text")
"""Kinds of parts that hold the model's text."""


def _accepts(row: Json) -> bool:
    first = mapping(row[0] if type(row) is list and row else row)
    if first.get("kind") == 0:
        return _accepts(mapping(first.get("v")))
    requests = mapping(row).get("requests")
    if type(requests) is not list:
        return False
    has_names = "sessionId" in row or "responderUsername" in row
    return has_names or (bool(requests) and {"message", "response"} <= mapping(requests[0]).keys())


def _grouped(rows: Iterator[RawRow], limit: int) -> Iterator[RawRow]:
    """Joins all lines of a session stored as changes into one record."""
    first = next(rows, None)
    if first is None:
        return iter(())
    rows = itertools.chain([first], rows)
    return as_one(rows, limit) if _BEGUN.match(first.body) else rows


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    session = _replayed(row) if type(row) is list and row else mapping(row)
    conversation = Conversation()
    model = ""
    for request in map(mapping, required_list(session, "requests")):
        conversation.add(
            {"role": "user", "content": text(mapping(request.get("message")).get("text") or request.get("message"))}
        )
        steps_before = len(conversation.steps)
        for message in _answers(request):
            conversation.add(message)
        model = text(request.get("modelId")) or model
        timings = mapping(mapping(request.get("result")).get("timings"))
        failed = mapping(mapping(request.get("result")).get("errorDetails")).get("message")
        if len(conversation.steps) > steps_before:
            last = conversation.steps[-1]
            milliseconds = number(timings.get("totalElapsed"))
            last.seconds = (
                milliseconds / 1000
                if milliseconds is not None and len(conversation.steps) == steps_before + 1
                else None
            )
            last.error = text(failed) or None
    if not conversation.steps:
        raise BadRow("This session has no answers.", f"{SHAPE}.")
    yield conversation.trajectory(
        policy=model,
        id=text(session.get("sessionId")),
        info={"title": session["customTitle"]} if session.get("customTitle") else {},
    )


def _replayed(lines: list[Json]) -> dict[str, Any]:
    """The session after all changes in its lines. Raises BadRow."""
    session = mapping(mapping(lines[0]).get("v"))
    for line in map(mapping, lines[1:]):
        *path, last = optional_list(line, "k") or [None]
        node: Json = session
        try:
            for key in path:
                node = node[key]
            if line.get("kind") == SET:
                node[last] = line.get("v")
            elif line.get("kind") == DELETED:
                node.pop(last, None)
            elif line.get("kind") == PUSHED:
                node = node.setdefault(last, []) if type(node) is dict else node[last]
                if type(line.get("i")) is int:
                    del node[line["i"] :]
                node.extend(optional_list(line, "v"))
        except (KeyError, IndexError, TypeError, AttributeError):
            raise BadRow(
                f"A change is of `{jsontext.dumps(line.get('k')).decode()[:80]}`, which is not there.", f"{SHAPE}."
            ) from None
    return session


def _answers(request: dict[str, Any]) -> Iterator[Message]:
    metadata = mapping(mapping(request.get("result")).get("metadata"))
    rounds = metadata.get("toolCallRounds")
    if type(rounds) is not list or not rounds:
        yield from _shown_messages(request)
        return
    results = mapping(metadata.get("toolCallResults"))
    for call_round in map(mapping, rounds):
        calls = list(map(mapping, optional_list(call_round, "toolCalls")))
        thought = mapping(call_round.get("thinking")).get("text")
        message: Message = {"role": "assistant", "content": text(call_round.get("response")), "tool_calls": calls}
        if thinking := "\n\n".join(map(text, thought)) if type(thought) is list else text(thought):
            message["reasoning_content"] = thinking
        yield message
        for call in calls:
            if (identifier := text(call.get("id"))) in results:
                yield {"role": "tool", "tool_call_id": identifier, "content": "".join(_words(results[identifier]))}


def _shown_messages(request: dict[str, Any]) -> Iterator[Message]:
    """Answers as displayed. Text displayed for tools was written for the page, not by the model: context."""
    answer: Message = {"role": "assistant", "content": ""}
    for part in map(mapping, optional_list(request, "response")):
        kind, content = text(part.get("kind")), _shown_words(part.get("value"))
        if kind == "toolInvocationSerialized":
            if answer["content"]:
                yield answer
            answer = {"role": "assistant", "content": ""}
            messages = filter(None, (_shown_words(part.get(key)) for key in ("invocationMessage", "pastTenseMessage")))
            yield {"role": "tool", "name": text(part.get("toolId")), "content": "\n".join(messages)}
        elif kind == "thinking":
            answer["reasoning_content"] = answer.get("reasoning_content", "") + content
        elif kind == "inlineReference":
            reference = mapping(part.get("inlineReference"))
            answer["content"] += text(part.get("name") or first_of(reference, "name", "path", "fsPath"))
        elif kind in SAID:
            answer["content"] += content
    if answer["content"]:
        yield answer


def _shown_words(value: Json) -> str:
    return text(mapping(value).get("value", value))


def _words(value: Json) -> Iterator[str]:
    """The text in a result, in order; the whole result if its text is elsewhere."""
    if type(value) is str:
        yield value
    elif type(value) is list:
        for item in value:
            yield from _words(item)
    elif type(value) is dict:
        contents = [value[key] for key in INSIDE if value.get(key) is not None]
        if not contents and not {"type", "ctor"} & value.keys():
            yield text(value)
        for item in contents:
            yield from _words(item)
    elif value is not None:
        yield text(value)


FORMAT = Format(
    name="copilot-chat",
    title="VS Code chat session (GitHub Copilot)",
    shape=SHAPE,
    keys=(
        "requests.message requests.response",
        "requests sessionId",
        "requests responderUsername",
        *single_or_listed("kind v"),
    ),
    accepts=_accepts,
    read=_read,
    gather=_grouped,
)
