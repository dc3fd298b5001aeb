"""A whole chat completion in the form of a stream, for agents that read nothing else."""

from __future__ import annotations

from typing import Any

from contract import jsontext

OF_EVERY_CHUNK = ("id", "created", "model")


def event_stream(completion: dict[str, Any], *, with_usage: bool) -> bytes:
    """As it is sent, to its end."""
    return b"".join(map(event, chunks_of(completion, with_usage=with_usage))) + b"data: [DONE]\n\n"


def event(chunk: dict[str, Any]) -> bytes:
    """One piece, as it is sent."""
    return b"data: " + jsontext.dumps(chunk) + b"\n\n"


def chunks_of(completion: dict[str, Any], *, with_usage: bool) -> list[dict[str, Any]]:
    """Each choice in one piece, and its end. What a server says beside them, such as ids of tokens, stands in the first: readers add it up."""
    shared = {name: completion[name] for name in OF_EVERY_CHUNK if name in completion}
    shared["object"] = "chat.completion.chunk"
    beside = {name: value for name, value in completion.items() if name not in ("choices", "usage", "object")}
    chunks: list[dict[str, Any]] = []
    for choice in completion.get("choices", []):
        message = dict(choice.get("message") or {})
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{**call, "index": index} for index, call in enumerate(calls)]
        piece = {name: value for name, value in choice.items() if name not in ("message", "finish_reason")}
        chunks.append({**beside, **shared, "choices": [{**piece, "delta": message, "finish_reason": None}]})
        end = {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks.append({**shared, "choices": [end]})
        beside = {}
    if with_usage and completion.get("usage"):
        chunks.append({**shared, "choices": [], "usage": completion["usage"]})
    return chunks
