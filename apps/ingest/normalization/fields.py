"""Reads loosely typed fields of foreign records: a value's meaning, or None if it has none."""

from __future__ import annotations

import hashlib
import math
from datetime import datetime

from apps.ingest.records import Json, Message, text_of
from contract import jsontext
from contract.values import count, flag, mapping, number, optional_list, required_list, reward_of, text

__all__ = [
    "count",
    "duration_between",
    "first_of",
    "flag",
    "mapping",
    "number",
    "optional_list",
    "prompt_key",
    "prompt_of",
    "required_list",
    "reward_of",
    "seconds_of",
    "succeeded_by",
    "text",
]


def succeeded_by(reward: float | None) -> bool | None:
    """Whether a trajectory succeeded, for benchmarks that use a reward of 1 for success."""
    return None if reward is None or not math.isfinite(reward) else reward >= 1


def seconds_of(value: Json) -> float | None:
    """A time in ISO 8601 as seconds since 1970; None if it isn't one."""
    try:
        return datetime.fromisoformat(value).timestamp() if type(value) is str else None
    except ValueError:
        return None


def duration_between(start: float | None, end: float | None) -> float | None:
    """Seconds between two times; None if one is unknown, or if the clocks disagree."""
    return None if start is None or end is None or end < start else end - start


def first_of(row: dict[str, Json], *keys: str) -> Json:
    """The value under the first of these keys that has one."""
    for key in keys:
        if row.get(key) is not None:
            return row[key]
    return None


def prompt_of(messages: list[Message]) -> str:
    """The first user message, or the system prompt if no user message has text."""
    for role in ("user", "system", "developer"):
        for message in messages:
            if message["role"] == role and (content := text_of(message.get("content"))).strip():
                return content
    return ""


def prompt_key(messages: list[Json]) -> str:
    """A task key for trajectories that name no task: equal prompts are the same task. "" for an empty prompt, which identifies no task."""
    if not any(_has_content(mapping(message).get("content")) for message in messages):
        return ""
    key_fields = [[mapping(message).get("role"), mapping(message).get("content")] for message in messages]
    return "prompt-" + hashlib.sha256(jsontext.canonical(key_fields)).hexdigest()[:16]


def _has_content(content: Json) -> bool:
    if type(content) is str:
        return bool(content.strip())
    if type(content) is list:
        return any(map(_has_content, content))
    return (
        any(_has_content(part) for key, part in content.items() if key != "type")
        if type(content) is dict
        else content is not None
    )
