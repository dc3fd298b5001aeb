"""Parses loosely typed values in imported records; None or empty for values without a meaning."""

from __future__ import annotations

import math
from typing import Any

from contract import jsontext

Json = Any
JsonObject = dict[str, Any]


class BadRow(ValueError):
    """A record that can't be used: why, and what was expected instead."""

    def __init__(self, reason: str, expected: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expected = expected


def reward_of(value: Json) -> float | None:
    """A number, a boolean, or a number as text. NaN and infinity mean that a reward couldn't be computed; they're
    passed on for the caller to report."""
    kind = type(value)
    if kind not in (float, int, bool, str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def number(value: Json) -> float | None:
    """A duration or a score: a number, a boolean, or a number as text. None for null, NaN, infinity, and anything else."""
    reward = reward_of(value)
    return reward if reward is not None and math.isfinite(reward) else None


def count(value: Json) -> int | None:
    """A number of tokens; None unless it's an integer that fits a 32-bit column."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**31 else None


YES = frozenset({"true", "yes", "1", "1.0", "success", "succeeded", "passed", "pass", "correct", "resolved", "solved"})
NO = frozenset({"false", "no", "0", "0.0", "failure", "failed", "fail", "incorrect", "unresolved", "unsolved"})


def flag(value: Json) -> bool | None:
    """A boolean, also as 0/1 or text; None if it's neither."""
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


def mapping(value: Json) -> JsonObject:
    """The value if it's an object, otherwise an empty one."""
    return value if type(value) is dict else {}


def required_list(row: JsonObject, key: str) -> list[Json]:
    """A list that must be there. Raises BadRow."""
    value = row.get(key)
    if type(value) is not list:
        problem = f"`{key}` is {jsontext.describe(value)}." if key in row else f"`{key}` is missing."
        raise BadRow(problem, f"`{key}` is a list.")
    return value


def optional_list(row: JsonObject, key: str) -> list[Json]:
    """A list; empty if missing. Raises BadRow for anything else."""
    return [] if row.get(key) is None else required_list(row, key)
