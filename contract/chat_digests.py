"""Digests by which a chat is known again when an agent sends it back, whatever its library changed that says nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from contract import jsontext
from contract.completions import arguments_of
from contract.values import Json

DIGEST_BYTES = 16


def prefix_digests(messages: Sequence[Json]) -> list[bytes]:
    """A digest for each beginning of a chat. System messages don't count: some agents write the time into theirs at each turn."""
    chain, digests = b"", []
    for message in messages:
        if not (isinstance(message, dict) and message.get("role") in ("system", "developer")):
            chain = hashlib.sha256(chain + jsontext.canonical(said(message))).digest()[:DIGEST_BYTES]
        digests.append(chain)
    return digests


def said(message: Json) -> Json:
    """What a message says, without what libraries add to it or leave out: reasoning, nulls, empty lists, spacing in arguments."""
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = "".join(str(part.get("text") or "") for part in content)
    calls = message.get("tool_calls")
    spoken: dict[str, Any] = {
        "role": message.get("role"),
        "content": content or "",
        "call": message.get("tool_call_id") or "",
        "calls": [_called(call) for call in calls] if isinstance(calls, list) else [],
    }
    return spoken


def _called(call: Json) -> Json:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    return [call.get("id"), function.get("name"), arguments_of(function.get("arguments"))]


def digest_of(value: Json) -> bytes:
    """Of any JSON value: a whole request, or the tools in it."""
    return hashlib.sha256(jsontext.canonical(value)).digest()[:DIGEST_BYTES]
