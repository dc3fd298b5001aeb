r"""JSON as agents really write it, read fast and written back without loss.

orjson does nearly all of the work. It refuses lone surrogates (`"\ud800"`), NaN and WTF-8, all of which occur in recorded shell
output, so a record that orjson refuses gets a second reading by the standard library. What is written is plain JSON that
Postgres' `json` type keeps as it is: NUL and lone surrogates stay as their \u escapes.

Integers beyond 64 bits become floats, as in JavaScript; the original record keeps their digits.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

type_names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}

MAX_DEPTH = 250
"""Levels of nesting a record may have. orjson writes 254; a reader of the stored rows needs a bound too."""
MAX_DEPTH_OF_TEXT = 200
"""The same of JSON in a text of a record, such as the arguments of a call."""


MAX_DIGITS = 300
"""Of a whole number. Nothing that is counted or measured has more, and no float can hold more."""


MOST_VALUES = 100_000
"""Values and names of a JSON text that somebody sends with a request. No form, list of ids, or message has as many."""


_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


class UnreadableJSON(ValueError):
    """Why some bytes are not a JSON value that can be kept, in words for the person who wrote the file."""


def loads(body: bytes) -> Any:
    """Read one JSON value. Raises UnreadableJSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as refusal:
        return _loads_slowly(body, refusal)


def has_more_values(body: bytes, most: int) -> bool:
    """Whether a JSON text has more than `most` values and names, told before it's read: a few megabytes of brackets take seconds to read and gigabytes to hold."""
    if len(body) <= most or _signs(body) + body.count(b'"') <= most:
        return False
    # Some may stand in strings. What has very many strings has as many values, and would take as long to look through.
    strings = (body.count(b'"') - body.count(b'\\"')) // 2
    return strings > 2 * most or _signs(_STRINGS.sub(b"", body)) > most


def _signs(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def parse(text: str) -> Any:
    """Read one JSON value from text, which may hold lone surrogates. Raises UnreadableJSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return loads(text.encode("utf-8", "surrogatepass"))


def dumps(value: Any) -> bytes:
    """Write a value as it stands: the order of keys is kept. Raises UnreadableJSON where it is nested too deeply."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _dumps_slowly(value, sort_keys=False)


def canonical(value: Any) -> bytes:
    """Write a value so that equal values give equal bytes, whatever the order of their keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _dumps_slowly(value, sort_keys=True)


def describe(value: Any) -> str:
    """What kind of JSON value this is, for messages: "a list", "a number"."""
    return type_names.get(type(value), "a number")


def _loads_slowly(body: bytes, refusal: orjson.JSONDecodeError) -> Any:
    try:
        text = body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise UnreadableJSON(f"Byte {error.start + 1} (0x{body[error.start]:02x}) is not UTF-8.") from None
    try:
        # strict=False lets raw control characters stand inside strings; NaN and Infinity have no JSON spelling.
        value = json.loads(text, strict=False, parse_constant=str, parse_int=_integer, parse_float=_float)
    except RecursionError:
        raise UnreadableJSON(f"Nested deeper than {MAX_DEPTH} levels.") from None
    except UnreadableJSON:
        raise
    except ValueError as error:
        if "Recursion" in str(refusal):
            raise UnreadableJSON(f"Nested deeper than {MAX_DEPTH} levels.") from None
        raise UnreadableJSON(f"Not JSON: {_lower_first(str(error))}.") from None
    return value


def _integer(digits: str) -> int:
    length = len(digits.lstrip("-"))
    if length > MAX_DIGITS:
        raise UnreadableJSON(f"A number has {length:,} digits; at most {MAX_DIGITS} fit.")
    return int(digits)


def _float(digits: str) -> float | str:
    """A number that 64 bits can't hold stays as it's written, as NaN does: infinity would be stored as null."""
    value = float(digits)
    return value if math.isfinite(value) else digits


def _dumps_slowly(value: Any, *, sort_keys: bool) -> bytes:
    if _is_deeper_than(value, MAX_DEPTH):
        raise UnreadableJSON(f"Nested deeper than {MAX_DEPTH} levels.")
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=sort_keys).encode()


def is_text_too_deep(text: str, value: Any) -> bool:
    """Whether the value of a text inside of a record is nested so deeply that it has to stay text: around it there are more levels."""
    return text.count("[") + text.count("{") > MAX_DEPTH_OF_TEXT and _is_deeper_than(value, MAX_DEPTH_OF_TEXT)


def _is_deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
