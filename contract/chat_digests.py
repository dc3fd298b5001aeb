"""Digests that identify a chat when an agent sends it back, ignoring insignificant changes its client library made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from contract import jsontext
from contract.completions import arguments_of, called_in, calls_in
from contract.values import Json

DIGEST_BYTES = 16


def is_system(message: Json) -> bool:
    """Whether it's a system message, which digests ignore: some agents put the current time in theirs at each turn."""
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


def normalized(message: Json) -> Json:
    """A message's content without what client libraries add or drop: reasoning, nulls, empty lists, spacing in arguments.

    None for system messages.
    """
    if not isinstance(message, dict):
        return message
    if is_system(message):
        return None
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = "".join(str(part.get("text") or "") for part in content)
    calls = calls_in(message)
    fields: dict[str, Any] = {
        "role": message.get("role"),
        "content": content or "",
        "call": message.get("tool_call_id") or "",
        "calls": [_called(call) for call in calls] if isinstance(calls, list) else [],
    }
    return fields


def prefix_digests(
    messages: Sequence[Json], normalized: Callable[[Json], Json] = normalized, *, after: bytes = b""
) -> list[bytes]:
    """A digest of each prefix of a chat.

    normalized: extracts a message's content, for protocols other than chat completions. after: the digest of the messages before these.
    """
    chain, digests = after, []
    for message in messages:
        if (content := normalized(message)) is not None:
            chain = hashlib.sha256(chain + jsontext.canonical(content)).digest()[:DIGEST_BYTES]
        digests.append(chain)
    return digests


def _called(call: Json) -> Json:
    function = called_in(call) if isinstance(call, dict) else None
    if not function or not isinstance(function, dict):
        return call
    return [call.get("id"), function.get("name"), arguments_of(function.get("arguments") or function.get("input"))]


def digest_of(value: Json) -> bytes:
    """A digest of any JSON value: a whole request, or its tools."""
    return hashlib.sha256(jsontext.canonical(value)).digest()[:DIGEST_BYTES]
