"""A streamed chat completion: cut into its events, and put together again as the one reply that it amounts to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from contract import jsontext

DONE = b"[DONE]"
JOINED = ("content", "refusal", "reasoning", "reasoning_content")
"""Texts of a message that come in pieces."""


class NoEvent(ValueError):
    """What a server streamed is no chat completion."""


async def events_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each server-sent event, however the bytes were cut on their way. Comments and other fields are left out."""
    held, data = b"", []
    async for piece in pieces:
        *lines, held = (held + piece).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                yield b"\n".join(data)
                data = []
    if held.startswith(b"data:"):
        data.append(held[5:].strip())
    if data:
        yield b"\n".join(data)


def chunk_from(data: bytes) -> dict[str, Any]:
    """Raises NoEvent."""
    try:
        chunk = jsontext.loads(data)
    except jsontext.UnreadableJSON:
        raise NoEvent from None
    if not isinstance(chunk, dict) or not (isinstance(chunk.get("choices"), list) or "error" in chunk):
        raise NoEvent
    return chunk


def event(chunk: dict[str, Any]) -> bytes:
    """As it is sent on."""
    return b"data: " + jsontext.dumps(chunk) + b"\n\n"


class StreamedReply:
    """What the chunks so far amount to."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    @property
    def has_ended(self) -> bool:
        """Whether every choice has said why it stopped."""
        return bool(self._choices) and all(choice["finish_reason"] for choice in self._choices.values())

    def add(self, chunk: dict[str, Any]) -> None:
        """Raises NoEvent for what can't be put together."""
        try:
            self._add(chunk)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise NoEvent from None

    def _add(self, chunk: dict[str, Any]) -> None:
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                self.reply[name] = value
        for piece in chunk["choices"]:
            index = int(piece.get("index", 0))
            choice = self._choices.setdefault(
                index, {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None}
            )
            _join(choice["message"], piece.get("delta") or {})
            logprobs = (piece.get("logprobs") or {}).get("content")
            if logprobs:
                choice.setdefault("logprobs", {"content": []})["content"] += logprobs
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]

    def completion(self) -> dict[str, Any]:
        """The chat completion."""
        choices = [self._choices[index] for index in sorted(self._choices)]
        return {**self.reply, "object": "chat.completion", "choices": choices}


def _join(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if value is None:
            continue
        if name in JOINED:
            message[name] = (message.get(name) or "") + value
        elif name == "tool_calls":
            for part in value:
                _join_call(message.setdefault("tool_calls", []), part)
        else:
            message[name] = value


def _join_call(calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
    index = part.get("index")
    call = next((each for each in calls if each["index"] == index), None)
    if call is None:
        call = {"index": index, "id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        calls.append(call)
    call["id"] = part.get("id") or call["id"]
    function = part.get("function") or {}
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""


def chunks_of(completion: dict[str, Any], *, with_usage: bool) -> list[dict[str, Any]]:
    """A whole reply as a stream brings it, for an agent that asks again for what it was streamed before."""
    shared = {name: value for name, value in completion.items() if name not in ("choices", "usage", "object")}
    shared["object"] = "chat.completion.chunk"
    chunks = []
    for choice in completion.get("choices", []):
        message = dict(choice.get("message") or {})
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{**call, "index": index} for index, call in enumerate(calls)]
        piece = {name: value for name, value in choice.items() if name not in ("message", "finish_reason")}
        chunks.append({**shared, "choices": [{**piece, "delta": message, "finish_reason": None}]})
        chunks.append({**shared, "choices": [{**piece, "delta": {}, "finish_reason": choice.get("finish_reason")}]})
    if with_usage and completion.get("usage"):
        chunks.append({**shared, "choices": [], "usage": completion["usage"]})
    return chunks
