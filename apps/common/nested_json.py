"""JSON inside text: tool arguments and results, encoded once, twice, or not at all."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, NamedTuple

from contract import jsontext

MAX_CHARS = 2_000_000
"""Longer text is shown as plain text: building a tree would take seconds, and nobody would read it."""

TOO_DEEP = "nested too deeply to be shown as a tree"
MAX_PYTHON_CHARS = 100_000
MAX_PYTHON_DEPTH = 30

_LITERALS = re.compile(
    r"""(?:
        '(?:[^'\\\n]|\\.)*+' | "(?:[^"\\\n]|\\.)*+" | [\[({,:] | \s
      | (?:[\])}] | True | False | None | -?\d+(?:\.\d+)?+(?:[eE][+-]?\d+)?+) (?=\s*+(?:[\])},:]|\Z))
    )*+""",
    re.VERBOSE,
)
"""Strings, brackets, and words and numbers followed only by a bracket, comma, or colon: no arithmetic, calls, or subscripts."""

_BRACKETS = re.compile(r"[\[\](){}]")


class Unreadable(ValueError):
    """Why a text isn't shown as JSON, as a message for the reader."""


def decode(text: str) -> Any:
    """Parse the JSON value in a text. Raises Unreadable."""
    if len(text) > MAX_CHARS:
        raise Unreadable("too long to be shown as a tree")
    try:
        value = json.loads(text, strict=False)
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except ValueError as error:
        raise Unreadable(f"not valid JSON: {error}") from None
    if jsontext.is_text_too_deep(text, value):
        raise Unreadable(TOO_DEEP)
    return value


def decode_result(text: str, *, most_python: int = MAX_PYTHON_CHARS) -> Any:
    """Parse a tool result: JSON, or a Python literal that JSON can represent. Raises Unreadable."""
    try:
        return decode(text)
    except Unreadable as error:
        refusal = error
    # Only shallow literals are passed to Python's parser: deep nesting would exhaust its stack.
    if len(text) > most_python or not _LITERALS.fullmatch(text) or _depth(text) > MAX_PYTHON_DEPTH:
        raise refusal
    try:
        return json.loads(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise refusal from None


def _depth(text: str) -> int:
    """The deepest nesting of brackets; those inside strings count too, which only errs on the side of refusing."""
    deepest = depth = 0
    for sign in _BRACKETS.findall(text):
        depth += 1 if sign in "[{(" else -1
        deepest = max(deepest, depth)
    return deepest


class Arguments(NamedTuple):
    """A call's arguments: the value, how many times it was encoded, and its problem, if any."""

    value: Any
    encoded: int
    problem: str


def arguments_of(raw: Any) -> Arguments:
    """Tool arguments from an object, a JSON string, or a JSON string inside one. Other text is kept unchanged."""
    value, encoded, problem = raw, 0, ""
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
