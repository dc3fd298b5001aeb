"""Removes everything from replies to a split's agent that would reveal which policy answered. Pure.

Servers add fields of their own (`system_fingerprint`, `provider`, costs), differ in empty fields and the format of ids, and name their model,
their address, and its limits in errors. Replies are therefore rebuilt from the fields of OpenAI's protocol, and errors reduced to their kind. The
policy's text, its latency, its tokenization, and the ids of its tool calls, which are in the prompts of some templates, can't be hidden.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import UUID

from contract import jsontext

CHOICE = {"index", "message", "delta", "finish_reason", "logprobs", "token_ids", "prompt_token_ids"}
MESSAGE = {
    *("role", "content", "refusal", "reasoning", "reasoning_content"),
    *("tool_calls", "function_call", "annotations", "audio"),
}
CALL = {"id", "type", "function", "custom"}
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")
TOO_LONG = "context_length_exceeded"
"""The code that tells agents to shorten the chat."""
REFUSED = {
    400: "The policy's server refused the request.",
    429: "The policy's server has too many requests. Try again in a moment.",
    502: "The policy's server failed. Try again later.",
}


def hide(reply: dict[str, Any], exchange_id: UUID, *, created: int) -> None:
    """Reduce a chat completion, or a chunk, to the fields common to all servers. Its id and its time (Unix seconds) are replaced."""
    keep(reply, {"choices", "usage", "prompt_token_ids"}, but={"choices"})
    reply |= {"id": f"chatcmpl-{exchange_id.hex}", "created": created}
    choices = reply.get("choices")
    is_piece = False
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict):
            is_piece |= "message" not in choice
            _hide_in_choice(choice)
    reply["object"] = "chat.completion.chunk" if is_piece or not choices else "chat.completion"
    if isinstance(usage := reply.pop("usage", None), dict):
        reply["usage"] = {name: usage.get(name) for name in USAGE}


def _hide_in_choice(choice: dict[str, Any]) -> None:
    keep(choice, CHOICE, but={"finish_reason"})
    choice.setdefault("finish_reason", None)
    if isinstance(message := choice.get("message"), dict):
        _hide_in_message(message, CALL)
        message.setdefault("content", None)
    if isinstance(delta := choice.get("delta"), dict):
        _hide_in_message(delta, {*CALL, "index"})


def _hide_in_message(message: dict[str, Any], of_call: set[str]) -> None:
    keep(message, MESSAGE)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict):
            keep(call, of_call)
            for kind in ("function", "custom"):
                if isinstance(called := call.get(kind), dict):
                    keep(called, {"name", "arguments", "input"})


def keep(holder: dict[str, Any], names: Collection[str], *, but: Collection[str] = ()) -> None:
    """Keep only nonempty fields with these names, since some servers omit what others send as null. but: fields that may be empty."""
    for name in list(holder):
        is_empty = holder[name] is None or holder[name] == []
        if name not in names or (is_empty and name not in but):
            del holder[name]


def hidden_status(status: int) -> int:
    """The status shown for an error (400 to 599): servers use different ones for the same problem."""
    if status == 429:
        return 429
    return 400 if status < 500 else 502


class Hidden(NamedTuple):
    """What the agent is told about an error."""

    status: int
    message: str
    code: str | None


def hidden_message(content: bytes, status: int) -> Hidden:
    """The message for an error; the only detail kept is that the chat is too long."""
    status = hidden_status(status)
    if status == 400 and _is_context_length_error(content):
        return Hidden(status, "The chat is longer than the policy's context. Shorten it.", TOO_LONG)
    return Hidden(status, REFUSED[status], None)


def hidden_error(content: bytes, status: int) -> bytes:
    """An error in the form of OpenAI's protocols."""
    status, message, code = hidden_message(content, status)
    kind = {400: "invalid_request_error", 429: "rate_limit_error", 502: "server_error"}[status]
    return jsontext.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _is_context_length_error(content: bytes) -> bool:
    start = content[:10_000].lower()
    return (
        TOO_LONG.encode() in start
        or b"context length" in start
        or b"context window" in start
        or b"prompt is too long" in start
    )
