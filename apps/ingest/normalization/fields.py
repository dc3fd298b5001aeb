"""Reads the loosely typed fields of foreign records: what a value means, or nothing where it means nothing."""

from __future__ import annotations

import hashlib
import math
from datetime import datetime
from typing import Any

from apps.ingest.records import BadRow, Json, Message, text_of
from contract import jsontext

HIDDEN = "For the simulated user only (the agent does not see this):\n"
"""How an instruction begins that a simulated user plays by, and that no agent is shown."""


def reward_of(value: Json) -> float | None:
    """A number, a boolean or a number's text. NaN and infinity are what a reward is called that could not be computed: they are left for
    whoever reads the record to tell of."""
    kind = type(value)
    if kind not in (float, int, bool, str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def number(value: Json) -> float | None:
    """A duration or a score: a number, a boolean or a number's text. None for null, NaN, infinity and all else."""
    found = reward_of(value)
    return found if found is not None and math.isfinite(found) else None


def succeeded_by(reward: float | None) -> bool | None:
    """Whether a run succeeded, of benchmarks that give 1 for success."""
    return None if reward is None or not math.isfinite(reward) else reward >= 1


def count(value: Json) -> int | None:
    """A number of tokens; None unless it is a whole number that a 32-bit column takes."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**31 else None


YES = frozenset({"true", "yes", "1", "1.0", "success", "succeeded", "passed", "pass", "correct", "resolved", "solved"})
NO = frozenset({"false", "no", "0", "0.0", "failure", "failed", "fail", "incorrect", "unresolved", "unsolved"})


def flag(value: Json) -> bool | None:
    """A yes or no, also as 0/1 and in words; None where it is neither."""
    if type(value) is bool:
        return value
    if value in (0, 1):
        return bool(value)
    if type(value) is str:
        word = value.strip().lower()
        return True if word in YES else False if word in NO else None
    return None


def text(value: Json) -> str:
    """Text as it is, null as "", anything else as its JSON."""
    if type(value) is str:
        return value
    return "" if value is None else jsontext.dumps(value).decode()


def seconds_of(value: Json) -> float | None:
    """A moment in ISO 8601 as seconds since 1970; None where it is none."""
    try:
        return datetime.fromisoformat(value).timestamp() if type(value) is str else None
    except ValueError:
        return None


def lasted(start: float | None, end: float | None) -> float | None:
    """Seconds between two moments; None where one is unknown, or clocks disagree."""
    return None if start is None or end is None or end < start else end - start


def mapping(value: Json) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if type(value) is dict else {}


def required_list(row: dict[str, Json], key: str) -> list[Json]:
    """A list that must be there. Raises BadRow."""
    value = row.get(key)
    if type(value) is not list:
        found = f"`{key}` is {jsontext.describe(value)}." if key in row else f"`{key}` is missing."
        raise BadRow(found, f"`{key}` is a list.")
    return value


def optional_list(row: dict[str, Json], key: str) -> list[Json]:
    """A list, or an empty one where there is none. Raises BadRow where something else stands in its place."""
    return [] if row.get(key) is None else required_list(row, key)


def first_of(row: dict[str, Json], *keys: str) -> Json:
    """The value under the first of these keys that has one."""
    for key in keys:
        if row.get(key) is not None:
            return row[key]
    return None


def prompt_of(messages: list[Message]) -> str:
    """What a person asked: the first thing that a user said, or the system prompt where no user said anything."""
    for role in ("user", "system", "developer"):
        for message in messages:
            if message["role"] == role and (said := text_of(message.get("content"))).strip():
                return said
    return ""


def prompt_key(messages: list[Json]) -> str:
    """A task key for runs that name no task: equal prompts are the same task. "" where nothing was asked, which is no task in common."""
    if not any(_says(mapping(message).get("content")) for message in messages):
        return ""
    asked = [[mapping(message).get("role"), mapping(message).get("content")] for message in messages]
    return "prompt-" + hashlib.sha256(jsontext.canonical(asked)).hexdigest()[:16]


def _says(content: Json) -> bool:
    if type(content) is str:
        return bool(content.strip())
    if type(content) is list:
        return any(map(_says, content))
    return (
        any(_says(each) for key, each in content.items() if key != "type")
        if type(content) is dict
        else content is not None
    )
