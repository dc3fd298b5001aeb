"""Chats of AutoGen and AG2: team results (version 0.4 and later, messages with `source`) and chat histories (0.2, messages with `name`).

All agents of a team are one policy, each message with its speaker's name. Messages that a program wrote under an agent's name are context: summaries
of tool results and, where messages report model usage, those that report none. A 0.2 history is from the perspective of the agent that began it,
so the user proxy has the role “assistant” there and the agents have “user”: roles are derived from names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.fields import count, mapping, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "`messages` with `source` and `type` “TextMessage” and the like, or `chat_history` with `role` and `name`"
KEYS = ("messages", "chat_history", "chat_messages")
GENERATED = "CodeGenerationEvent"
"""A model's message, although it never reports usage."""
SAID = frozenset({"TextMessage", "MultiModalMessage", "StructuredMessage", GENERATED})
BY_PROGRAM = frozenset({"ToolCallSummaryMessage", "HandoffMessage", "StopMessage", "CodeExecutionEvent"})
EVENTS = frozenset({"ToolCallRequestEvent", "ToolCallExecutionEvent", "ThoughtEvent"})
EXECUTED = re.compile(r"exitcode: \S+ \(execution (?:succeeded|failed)\)\nCode output:")
"""How version 0.2 reports what code printed, in the name of the agent that ran it."""
KNOWN = SAID | BY_PROGRAM | EVENTS
PEOPLE = frozenset({"user", "human", "admin", "user_proxy", "userproxy", "user_proxy_agent", "userproxyagent"})


def _key_and_messages(row: Json) -> tuple[str, list[dict[str, Any]]]:
    """The key of the messages, and the messages; an empty list if they aren't AutoGen's."""
    for key in KEYS if type(row) is dict else ("",):
        entry = row.get(key) if key else row
        messages = [mapping(message) for message in entry] if type(entry) is list else []
        if messages and "source" in messages[0] and text(messages[0].get("type")) in KNOWN:
            return key, messages
        if any(message.get("role") == "assistant" and _is_person(message.get("name")) for message in messages):
            return key, messages
    return "", []


def _is_person(name: Json) -> bool:
    return text(name).lower().replace(" ", "_").replace("-", "_") in PEOPLE


def _accepts(row: Json) -> bool:
    return bool(_key_and_messages(row)[1])


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    key, entry = _key_and_messages(row)
    if not entry:
        raise BadRow(f"The record is {jsontext.describe(row)} without such messages.", f"{SHAPE}.")
    has_usage = any(message.get("models_usage") for message in entry)
    messages = [m for raw in entry for m in (_of_team(raw, has_usage) if "source" in raw else _of_history(raw))]
    record = chat_trajectory(Chat(mapping(row), messages, (key,)))
    for step in record.steps:
        usage = mapping(step.info.pop("usage", None))
        step.prompt_tokens, step.completion_tokens = (
            count(usage.get(f"{kind}_tokens")) for kind in ("prompt", "completion")
        )
    yield record


def _of_team(entry: dict[str, Any], has_usage: bool) -> Iterator[Message]:
    """`has_usage`: messages report model usage, so one that doesn't was written by a program."""
    kind, name, content = text(entry.get("type")), text(entry.get("source")), entry.get("content")
    usage = entry.get("models_usage")
    if kind == "ToolCallExecutionEvent":
        for result in map(mapping, content if type(content) is list else []):
            answer = {key: result.get(key) for key in ("name", "content", "is_error")}
            yield {"role": "tool", "tool_call_id": result.get("call_id"), **answer}
    elif kind == "ToolCallRequestEvent":
        yield {"role": "assistant", "name": name, "content": None, "tool_calls": content, "usage": usage}
    elif kind == "ThoughtEvent":
        yield {"role": "reasoning", "content": content}
    elif kind == "CodeExecutionEvent":
        yield {"role": "user", "name": name, "content": mapping(entry.get("result")).get("output")}
    elif _is_person(name):
        yield {"role": "user", "content": _parts(content)}
    elif kind in BY_PROGRAM or (kind in SAID and kind != GENERATED and has_usage and not usage):
        yield {"role": "assistant", "name": name, "content": _parts(content), "loss": False}
    elif kind in SAID:
        yield {"role": "assistant", "name": name, "content": _parts(content), "usage": usage}


def _of_history(entry: dict[str, Any]) -> Iterator[Message]:
    results = entry.get("tool_responses")
    if type(results) is list and results:
        yield from (mapping(result) for result in results)
    elif EXECUTED.match(text(entry.get("content"))):
        yield {**entry, "role": "user"}
    elif entry.get("role") == "user" and entry.get("name") and not _is_person(entry["name"]):
        yield {**entry, "role": "assistant"}
    elif entry.get("role") == "assistant" and _is_person(entry.get("name")):
        yield {**entry, "role": "user"}
    else:
        yield entry


def _parts(content: Json) -> Json:
    """Text and images; a structured object, which a model was asked to fill in, as JSON."""
    if type(content) is not list:
        return text(content)
    return [{"type": "text", "text": part} if type(part) is str else _picture(mapping(part)) for part in content]


def _picture(part: dict[str, Any]) -> Json:
    if type(part.get("data")) is not str:
        return part
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{part['data']}"}}


FORMAT = Format(
    name="autogen",
    title="AutoGen chat",
    shape=SHAPE,
    keys=(
        *(f"{key}.source {key}.type" for key in KEYS),
        *(f"{key}.role {key}.name" for key in KEYS),
        "[].source [].type",
        "[].role [].name",
    ),
    accepts=_accepts,
    read=_read,
)
