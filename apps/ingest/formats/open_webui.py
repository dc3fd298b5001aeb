"""Open WebUI's exported chats: `chat` with a `history` of messages. Other branches and other models' answers are trajectories of their own.

Answers embed reasoning, calls, and tool results as `<details>` elements, which are parsed back out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from apps.ingest.formats import Format
from apps.ingest.normalization.branches import branch_paths, trajectories_along
from apps.ingest.normalization.fields import first_of, mapping, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "`chat` with `history`, whose `messages` have `role`, `content` and `parentId`"
BESIDE = ("annotation", "usage", "files", "sources", "error")
"""Keys of messages that are kept as metadata."""

_DETAILS = re.compile(r'<details type="(reasoning|tool_calls|code_interpreter)"')
_ATTRIBUTE = re.compile(r'(?<![a-z_])([a-z_]+)="([^"]*)"')
_CODE = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)

RawMessage = dict[str, Any]


def _history(row: Json) -> dict[str, Json]:
    return mapping(mapping(mapping(row).get("chat")).get("history"))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    history = _history(row)
    messages = {name: mapping(message) for name, message in mapping(history.get("messages")).items()}
    if not messages:
        raise BadRow(f"The record is {jsontext.describe(row)} without messages in its `history`.", f"{SHAPE}.")
    chat = mapping(row["chat"])
    prompt = text(first_of(chat, "system") or mapping(chat.get("params")).get("system"))
    system = [{"role": "system", "content": prompt}] if prompt else []
    yield from trajectories_along(
        branch_paths(messages, lambda message: text(message.get("parentId")), text(history.get("currentId"))),
        lambda path: [*system, *(turn for message in path for turn in _messages(message))],
        lambda message: text(message.get("model")),
        name=text(first_of(row, "id") or chat.get("id")),
        info={"title": title} if (title := first_of(row, "title") or chat.get("title")) else {},
        expected=f"{SHAPE}.",
    )


def _messages(entry: RawMessage) -> Iterator[Message]:
    extra = {key: entry[key] for key in BESIDE if entry.get(key)}
    role, content = text(entry.get("role")), entry.get("content")
    if role != "assistant" or type(content) is not str:
        yield {"role": role, "content": content, **(extra if role == "assistant" else {})}
        return
    if entry.get("error") and not content.strip():  # nothing was answered
        problem = entry["error"]
        yield {"role": role, "content": text(mapping(problem).get("content", problem)), "loss": False}
        return
    yield {"role": role, "content": list(_parts(content)), **extra}


def _parts(content: str) -> Iterator[Json]:
    """Text, reasoning, calls, and results, in order."""
    end = 0
    for number, element in enumerate(_details_in(content)):
        if written := content[end : element.begin].strip("\n"):
            yield {"type": "text", "text": written}
        end = element.end
        details = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(element.attributes)}
        body = _without_summary(element.body)
        if element.type == "reasoning":
            yield {"type": "thinking", "thinking": "\n".join(_unquoted(html.unescape(body)))}
            continue
        name: str = details.get("name", "code_interpreter")
        arguments: Json = details.get("arguments") or "{}"
        result = (
            details.get("result")
            or details.get("output")
            or (html.unescape(body) if element.type == "tool_calls" else "")
        )
        if element.type == "code_interpreter":
            code = _CODE.search(body)
            name, arguments = "code_interpreter", {"code": html.unescape(code[1] if code else body)}
        identifier = details.get("id") or f"details_{number}"
        yield {"type": "tool_use", "id": identifier, "name": name, "input": arguments}
        if result.strip():
            yield {"type": "tool_result", "tool_use_id": identifier, "content": _decoded(result.strip())}
    if (written := content[end:].strip("\n")) or not end:
        yield {"type": "text", "text": written}


class Details(NamedTuple):
    """A `<details>` element, from `begin` to `end` in the message's text."""

    begin: int
    end: int
    type: str
    attributes: str
    body: str


def _details_in(content: str) -> Iterator[Details]:
    """Finds elements one after another, searching for each end once: a pattern for a whole element would search again from every start."""
    after = 0
    while opening := _DETAILS.search(content, after):
        closed = content.find(">", opening.end())
        last = content.find("</details>", closed) if closed >= 0 else -1
        if last < 0:
            return
        after = last + len("</details>")
        after += content.startswith("\n", after)
        body = content[closed + 1 : last].removeprefix("\n")
        yield Details(opening.start(), after, opening[1], content[opening.end() : closed], body)


def _without_summary(body: str) -> str:
    before, opening, rest = body.partition("<summary>")
    _, closing, after = rest.partition("</summary>")
    return before + after.removeprefix("\n") if opening and closing else body


def _unquoted(thought: str) -> Iterator[str]:
    for line in thought.strip().split("\n"):
        yield line.removeprefix(">").removeprefix(" ")


def _decoded(written: str) -> Json:
    """The content of a JSON string; other text unchanged."""
    try:
        value = jsontext.parse(written)
    except jsontext.UnreadableJSON:
        return written
    return value if type(value) is str else written


FORMAT = Format(
    name="open-webui", title="Open WebUI export", shape=SHAPE, keys=("chat.history.messages.*.role",), read=_read
)
