"""JSON inside text: tool arguments and results, encoded once, twice, or not at all."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MAX_CHARS = 2_000_000
"""Longer text is shown as text: a tree of it would take seconds to read and nobody would."""


class Unreadable(ValueError):
    """Why a text is not shown as JSON, in words for the reader."""


def decode(text: str) -> Any:
    """The JSON value in a text. Raises Unreadable."""
    if len(text) > MAX_CHARS:
        raise Unreadable("too long to be shown as a tree")
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise Unreadable("nested too deeply to be shown as a tree") from None
    except ValueError as error:
        raise Unreadable(f"not valid JSON: {error}") from None


class Arguments(NamedTuple):
    """What a call was given: its value, how often it was encoded, and what is wrong with it, if anything."""

    value: Any
    encoded: int
    problem: str


def arguments_of(given: Any) -> Arguments:
    """Tool arguments from an object, a JSON string, or a JSON string inside one. A text that is neither stays as it is."""
    value, encoded, problem = given, 0, ""
    while isinstance(value, str) and encoded < 2:
        if not value.strip():
            return Arguments({}, encoded, "")
        try:
            value = decode(value)
        except Unreadable as error:
            problem = str(error)
            break
        encoded += 1
    if not problem and not isinstance(value, dict):
        problem = "" if value is None else "not an object"
        value = {} if value is None else value
    return Arguments(value, encoded, problem)


def child(value: Any, path: str) -> Any:
    """The value at a path of positions ("0.3.2": third child of the fourth child of the first). Raises LookupError."""
    for position in path.split(".") if path else []:
        if not position.isdigit() or not isinstance(value, dict | list):
            raise LookupError(path)
        children = list(value.values()) if isinstance(value, dict) else value
        value = children[int(position)]
    return value
