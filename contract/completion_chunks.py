"""A complete chat completion as a stream of chunks, for agents that only read streams."""

from __future__ import annotations

from typing import Any

from contract import jsontext

OF_EVERY_CHUNK = ("id", "created", "model")


def event_stream(completion: dict[str, Any], *, with_usage: bool) -> bytes:
    """The complete stream of server-sent events."""
    return b"".join(map(event, chunks_of(completion, with_usage=with_usage))) + b"data: [DONE]\n\n"


def event(chunk: dict[str, Any]) -> bytes:
    """One chunk as a server-sent event."""
    return b"data: " + jsontext.dumps(chunk) + b"\n\n"


def chunks_of(completion: dict[str, Any], *, with_usage: bool) -> list[dict[str, Any]]:
    """Two chunks per choice: its content and its end. A server's extra fields, such as token ids, go in the first, since readers concatenate them."""
    shared = {name: completion[name] for name in OF_EVERY_CHUNK if name in completion}
    shared["object"] = "chat.completion.chunk"
    extra = {name: value for name, value in completion.items() if name not in ("choices", "usage", "object")}
    chunks: list[dict[str, Any]] = []
    for choice in completion.get("choices", []):
        message = dict(choice.get("message") or {})
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{**call, "index": index} for index, call in enumerate(calls)]
        piece = {name: value for name, value in choice.items() if name not in ("message", "finish_reason")}
        chunks.append({**extra, **shared, "choices": [{**piece, "delta": message, "finish_reason": None}]})
        end = {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks.append({**shared, "choices": [end]})
        extra = {}
    if with_usage and completion.get("usage"):
        chunks.append({**shared, "choices": [], "usage": completion["usage"]})
    return chunks
