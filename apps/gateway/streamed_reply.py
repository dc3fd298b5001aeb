"""A streamed chat completion: split into its events, and reassembled into a single reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from apps.gateway.kept_values import KeptValues, NoEvent

DONE = b"[DONE]"
JOINED = ("content", "refusal", "reasoning", "reasoning_content")
"""Message texts that are streamed in parts."""
END = ("finish_reason", "stop_reason")
"""Why a choice ended. vLLM also names the stop string or token that cut it."""
MAX_LINES = 10_000
"""Data lines per event. A one-byte line takes about fifty bytes of memory."""
CALLED = {"function": ("name", "arguments"), "custom": ("name", "input")}
"""What a call says of its tool, by the tool's type. A custom tool takes text."""
MAX_CHOICES = 128
MAX_TOOL_CALLS = 1000
"""Per message."""


async def events_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each server-sent event, regardless of how the bytes are chunked. Comments and other fields are dropped. Raises NoEvent."""
    unended: list[bytes] = []  # parts of the last line; joined once, since there may be very many
    data: list[bytes] = []
    async for piece in pieces:
        unended.append(piece)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(unended).replace(b"\r\n", b"\n").split(b"\n")
        unended = [rest]
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
                if len(data) > MAX_LINES:
                    raise NoEvent
            elif not line and data:
                yield b"\n".join(data)
                data = []
    if (rest := b"".join(unended)).startswith(b"data:"):
        data.append(rest[5:].strip())
    if data:
        yield b"\n".join(data)


class StreamedReply:
    """Accumulates chunks. The cost of each is proportional to its size, regardless of the previous ones."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._kept = KeptValues()
        self._unended = 0

    @property
    def has_ended(self) -> bool:
        """Whether every choice has a finish reason."""
        return bool(self._choices) and not self._unended

    def add(self, chunk: dict[str, Any]) -> None:
        """Raises NoEvent if the chunk doesn't fit."""
        try:
            self._add(chunk)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise NoEvent from None

    def _add(self, chunk: dict[str, Any]) -> None:
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                self._kept.put(self.reply, name, value)
        for piece in chunk["choices"]:
            index = int(piece.get("index", 0))
            choice = self._choices.get(index)
            if choice is None:
                if len(self._choices) == MAX_CHOICES:
                    raise NoEvent
                choice = self._choices[index] = _Choice(self._kept)
                self._unended += 1
            had_ended = choice.has_ended
            choice.add(piece)
            self._unended -= choice.has_ended and not had_ended

    def completion(self) -> dict[str, Any]:
        """The chat completion."""
        choices = [{"index": index, **self._choices[index].whole()} for index in sorted(self._choices)]
        return {**self.reply, "object": "chat.completion", "choices": choices}


class _Choice:
    def __init__(self, kept: KeptValues) -> None:
        self._kept = kept
        self._fields: dict[str, Any] = {"finish_reason": None}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        """Other parts of the message that come a few entries at a time, such as annotations."""
        self._legacy_call: _Call | None = None
        self._calls: list[_Call] = []
        self._latest: dict[Any, _Call] = {}
        """The latest call with each index."""
        self._logprobs: list[Any] = []

    @property
    def has_ended(self) -> bool:
        return bool(self._fields["finish_reason"])

    def add(self, piece: dict[str, Any]) -> None:
        for name, value in (piece.get("delta") or {}).items():
            if value is None:
                continue
            if name in JOINED:
                self._texts.setdefault(name, []).append(_text(value))
            elif name == "tool_calls":
                self._add_calls(value)
            elif name == "function_call":
                self._legacy_call = self._legacy_call or _Call(self._kept)
                self._legacy_call.add({"function": value})
            elif isinstance(value, list):
                self._kept.extend(self._lists.setdefault(name, []), value)
            else:
                self._kept.put(self._message, name, value)
        self._kept.extend(self._logprobs, (piece.get("logprobs") or {}).get("content") or [])
        if piece.get("finish_reason"):
            for name in END:
                if name in piece:
                    self._kept.put(self._fields, name, piece[name])

    def _add_calls(self, parts: list[dict[str, Any]]) -> None:
        for part in parts:
            call = self._latest.get(part.get("index"))
            if call is None or call.is_followed_by(part):
                if len(self._calls) == MAX_TOOL_CALLS:
                    raise NoEvent
                call = self._latest[part.get("index")] = _Call(self._kept)
                self._calls.append(call)
            call.add(part)

    def whole(self) -> dict[str, Any]:
        message = self._message | {name: "".join(pieces) for name, pieces in self._texts.items()} | self._lists
        if self._legacy_call:
            message["function_call"] = self._legacy_call.whole()["function"]
        if self._calls:
            message["tool_calls"] = [{"index": index, **call.whole()} for index, call in enumerate(self._calls)]
        logprobs = {"logprobs": {"content": self._logprobs}} if self._logprobs else {}
        return {"message": message, **self._fields, **logprobs}


class _Call:
    def __init__(self, kept: KeptValues) -> None:
        self._kept = kept
        self._fields: dict[str, Any] = {"id": "", "type": "function"}
        self._texts: dict[str, list[str]] = {}

    def is_followed_by(self, part: dict[str, Any]) -> bool:
        """Whether the part begins another call, with this one's index: some servers give all calls index 0, or none."""
        is_named = bool(_called(part).get("name"))
        return is_named and bool(self._fields["id"] and part.get("id")) and part["id"] != self._fields["id"]

    def add(self, part: dict[str, Any]) -> None:
        if part.get("id") and not self._fields["id"]:
            self._kept.put(self._fields, "id", part["id"])
        if part.get("custom"):
            self._fields["type"] = "custom"
        for name, text in _called(part).items():
            if text is not None:
                self._texts.setdefault(name, []).append(_text(text))

    def whole(self) -> dict[str, Any]:
        texts = {name: "".join(self._texts.get(name, ())) for name in CALLED[self._fields["type"]]}
        return {**self._fields, self._fields["type"]: texts}


def _called(part: dict[str, Any]) -> dict[str, Any]:
    """The name and the arguments in a part of a call."""
    called = part.get("custom") or part.get("function") or {}
    return {name: called.get(name) for name in ("name", "arguments", "input")}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NoEvent
    return value
