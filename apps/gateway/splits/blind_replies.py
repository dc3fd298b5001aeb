"""Replies to the agent of a split, without what would tell which policy answered. Pure.

Servers add fields of their own (`system_fingerprint`, `provider`, costs), spell ids in their own way, and name their model in errors. Only what
OpenAI's protocol has passes. What a policy writes, how long it takes, and how it cuts text into tokens can't be hidden.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from contract import jsontext

REPLY = {"id", "object", "created", "model", "choices", "usage", "prompt_token_ids"}
CHOICE = {"index", "message", "delta", "finish_reason", "logprobs", "token_ids", "prompt_token_ids"}
USAGE = {
    *("prompt_tokens", "completion_tokens", "total_tokens"),
    *("prompt_tokens_details", "completion_tokens_details"),
}
ERROR = ("message", "type", "param", "code")


def hide(reply: dict[str, Any], exchange_id: UUID) -> None:
    """Take out of a chat completion, or of a piece of one, what only one server says. Its id becomes ours."""
    _keep(reply, REPLY)
    if "id" in reply:
        reply["id"] = f"chatcmpl-{exchange_id.hex}"
    choices = reply.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict):
            _keep(choice, CHOICE)
    if isinstance(usage := reply.get("usage"), dict):
        _keep(usage, USAGE)


def _keep(holder: dict[str, Any], names: set[str]) -> None:
    for name in holder.keys() - names:
        del holder[name]


def hidden_error(content: bytes, *, names: dict[str, str]) -> bytes:
    """An error in the form of the protocol; `names` are the model's on its server, and what the agent knows in place of each."""
    try:
        reply = jsontext.loads(content)
    except jsontext.UnreadableJSON:
        reply = {}
    error = reply.get("error", reply) if isinstance(reply, dict) else {}
    said = error if isinstance(error, dict) else {"message": error}
    kept = {name: _renamed(said.get(name), names) for name in ERROR}
    return jsontext.dumps({"error": {**kept, "message": kept["message"] or "The policy's server refused the request."}})


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if not isinstance(value, str):
        return value if isinstance(value, int) else None
    for served, known in names.items():
        value = value.replace(served, known)
    return value
