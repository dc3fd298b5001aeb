"""Digests of what a step did and of what a whole trajectory contains: equal actions have equal digests.

Call ids are ignored, and arguments are compared as values, whatever their key order and encoding. A trajectory's course
is everything that somebody who replays it can read: timings, tokens, and rewards are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from contract import jsontext
from contract.trajectory import Trajectory

DIGEST_BYTES = 16

COURSE_BYTES = 8
"""Even among a million trajectories of one task, collisions are unlikely, and Postgres sorts integers fast."""

MAX_ARGUMENTS = 2_000_000
"""Longer arguments are compared as raw text."""

Call = tuple[str, str]
"""A tool's name and its arguments in canonical form."""


def calls_of(message: Mapping[str, Any]) -> list[Call]:
    """The calls of an assistant message, in order."""
    return [_call(call) for call in message.get("tool_calls") or [] if isinstance(call, dict)]


def digest_of(message: Any, info: Mapping[str, Any] | None = None) -> bytes:
    """The digest of what a step did.

    `info.action` is the command run for an agent that writes commands as text. If there are calls or such a command, the text around
    them is commentary: two steps with equal actions are equal.
    """
    message = message if isinstance(message, dict) else {"content": message}
    parts = [part for call in calls_of(message) for part in call]
    written = (info or {}).get("action")
    if not parts and isinstance(written, str) and written.strip():
        parts = ["", written.strip()]
    if not parts:
        parts = [" ".join(text_of_message(message).split())]
    # Length prefixes make the encoding of lists of parts unambiguous.
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return blake2b(_bytes(text), digest_size=DIGEST_BYTES).digest()


def course_of(record: Trajectory, acted: Sequence[bytes]) -> int:
    """The digest of a trajectory as a signed 64-bit integer; `acted` has the digest of each step's action."""
    digest = blake2b(digest_size=COURSE_BYTES)
    for part in _parts(record, acted):
        digest.update(len(part).to_bytes(8))  # makes the encoding of lists of parts unambiguous
        digest.update(part)
    return int.from_bytes(digest.digest(), signed=True)


def _parts(record: Trajectory, acted: Sequence[bytes]) -> Iterator[bytes]:
    for step, act in zip(record.steps, acted, strict=True):
        yield from _bytes_of_context(step.context)
        yield act
        yield from _bytes_of_message(step.message)
    yield from _bytes_of_context(record.closing)


def _bytes_of_context(messages: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    for message in messages:
        yield _bytes(str(message.get("role", "")))
        yield _bytes(text_of_message(message))


def _bytes_of_message(message: Mapping[str, Any]) -> Iterator[bytes]:
    yield _bytes(text_of_message(message))
    yield _bytes(str(message.get("reasoning_content") or ""))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text_of_message(message: Mapping[str, Any]) -> str:
    """A message's text."""
    content = message.get("content")
    return content if isinstance(content, str) else canonical(content) if content else ""


def canonical(value: Any) -> str:
    """A value in canonical JSON."""
    try:
        return jsontext.canonical(value).decode()
    except (jsontext.UnreadableJSON, RecursionError, TypeError):
        return repr(type(value))


def _call(call: dict[str, Any]) -> Call:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments")
    for _ in range(2):  # may be doubly encoded
        if not isinstance(arguments, str) or len(arguments) > MAX_ARGUMENTS:
            break
        try:
            arguments = jsontext.parse(arguments)
        except jsontext.UnreadableJSON:
            break
    return str(function.get("name", "")), arguments if isinstance(arguments, str) else canonical(arguments)
