"""OpenAI-style chat messages with tool calls: an object with `messages`, or the bare list.

Data sets put messages under many names, also as JSON text and as parallel lists, and name speakers in many ways; all of these are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import NAMES_OF_CHAT, Chat, chat_trajectory
from apps.ingest.normalization.columns import (
    TASK,
    Columns,
    inside,
    listed,
    named,
)
from apps.ingest.normalization.fields import first_of, mapping
from apps.ingest.normalization.roles import role_of
from apps.ingest.normalization.transcripts import transcript
from apps.ingest.records import BadRow, Json, TrajectoryRecord, numbered, read_each

MESSAGES = (
    *("messages", "conversation", "conversations", "chat", "dialogue", "dialog", "turns", "items", "trajectory"),
    *("input", "request.messages", "request.body.messages", "body.messages"),
    *("chat_history", "user_input"),
)
WRITTEN_DOWN = ("chat", "conversation", "dialogue", "dialog")
"""Columns that may hold a chat as plain text."""
WHO_SPEAKS = ("role", "from", "type")
"""Keys that identify a single message without a chat around it."""
ANSWERS = ("response", "output", "completion")


def _key_and_messages(row: Json) -> tuple[str, list[Json]] | None:
    """The key of the messages, and the messages."""
    if type(row) is list:
        return ("", row) if row else None
    for name in MESSAGES if type(row) is dict else ():
        entry = inside(row, name)
        written = transcript(entry) if type(entry) is str and name in WRITTEN_DOWN else None
        messages = written or listed(entry)
        if messages and role_of(messages[0]):
            return name, messages
    return None


def _accepts(row: Json) -> bool:
    chat = _key_and_messages(row)
    if chat is None or (type(row) is dict and ("chosen" in row or "rejected" in row)):  # one side of a pair
        return False
    return bool(role_of(chat[1][0])) and "trajectory_format" not in row


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    name, messages = _key_and_messages(row) or _prompt_of(row)
    if chats := _apart(messages) if type(row) is list else []:
        yield from read_each(chats, lambda chat: [chat_trajectory(Chat(chat, chat["messages"], ("messages",)))])
        return
    fields = row if type(row) is dict else {}
    if len(list(islice(_several(fields), 2))) > 1:
        yield from read_each(numbered("Answer", _several(fields)), lambda one: _read(one, filename))
        return
    answer = _answer(fields, messages)
    used_keys = (name.partition(".")[0], *(ANSWERS if answer else ()))
    yield chat_trajectory(Chat(fields, messages + answer, used_keys))


def _apart(messages: list[Json]) -> list[tuple[str, dict[str, Json]]]:
    """Single messages grouped by the chat they name; none if they name no chat or the same one."""
    for key in NAMES_OF_CHAT:
        names = [named(mapping(message).get(key)) or "" for message in messages]
        if all(names) and len({*names}) > 1:
            chats: dict[str, dict[str, Json]] = {name: {"id": name, "messages": []} for name in names}
            for name, message in zip(names, messages, strict=True):
                chats[name]["messages"].append(message)
            return [(f"Chat {name}", chat) for name, chat in chats.items()]
    return []


def _prompt_of(row: Json) -> tuple[str, list[Json]]:
    """Messages that begin with something unknown, so that the error can quote it; or none at all."""
    messages = first_of(row, *MESSAGES[:4]) if type(row) is dict else row
    if messages == [] and type(row) is dict and Columns(row).take(named, TASK):
        return "messages", []  # a trajectory that never began
    if type(messages) is not list or not messages:
        raise BadRow(
            "There are no messages.", "An object whose `messages` is a list of chat messages, or the list alone."
        )
    return "messages", messages


def _several(row: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """One row for each of the answers to a logged request."""
    holders = [(name, row[name]) for name in ANSWERS if type(mapping(row.get(name)).get("choices")) is list]
    if type(row.get("choices")) is list and all("message" in mapping(choice) for choice in row["choices"]):
        return ({**row, "choices": [choice]} for choice in row["choices"])
    return ({**row, name: {**entry, "choices": [choice]}} for name, entry in holders[:1] for choice in entry["choices"])


def _answer(row: dict[str, Json], messages: list[Json]) -> list[Json]:
    """The answer to a logged request, stored beside its messages; empty if it's already among them."""
    answered = row if "choices" in row else first_of(row, *ANSWERS)
    answered = first_of(mapping(answered), "body") or answered
    choices = mapping(answered).get("choices")
    if type(answered) is list and "message" in mapping(answered[0] if answered else None):
        choices = answered
    answer = mapping(choices[0]).get("message") if type(choices) is list and choices else answered
    last = messages[-1] if messages else None
    if role_of(answer):
        return [answer] if _said(answer) != _said(last) else []
    if role_of(last) == "assistant":
        return []
    if type(answer) is list and answer and role_of(answer[0]):
        return answer
    return [{"role": "assistant", "content": answer}] if type(answer) is str and answer else []


def _said(message: Json) -> list[Json]:
    return [mapping(message).get(key) or None for key in ("role", "content", "tool_calls")]


FORMAT = Format(
    name="openai-chat",
    title="OpenAI-style chat",
    shape="an object with `messages` (and `tools`, `reward`, …), or a list of messages with `role` and `content`",
    keys=(*MESSAGES, *(f"[].{key}" for key in WHO_SPEAKS)),
    accepts=_accepts,
    read=_read,
    general=True,
    yields_to=("judged-pairs",),
)
