r"""JSON as agents actually write it, parsed fast and written back without loss.

orjson does nearly all of the work. It refuses lone surrogates (`"\ud800"`), NaN and WTF-8, all of which occur in recorded shell
output, so a record that orjson refuses is parsed again by the standard library. The output is plain JSON that
Postgres' `json` type stores unchanged: NUL and lone surrogates stay as their \u escapes.

Integers beyond 64 bits become floats, as in JavaScript; the original record keeps all digits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import orjson

type_names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}

MAX_DEPTH = 250
"""Maximum nesting of a record. orjson can write 254 levels; readers of stored rows need a bound too."""
MAX_DEPTH_OF_TEXT = 200
"""Maximum nesting of JSON inside a string of a record, such as a call's arguments."""


MAX_DIGITS = 300
"""Maximum digits of an integer. No count or measurement has more, and no float can hold more."""


MAX_VALUES = 100_000
"""Maximum number of values and names in JSON sent with a request. No form, list of ids, or message has as many."""


MAX_PROSE = 50_000
"""Characters at the end of a text that are searched for objects: each brace of many that open and never close costs time."""


_DECODER = json.JSONDecoder()
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


class UnreadableJSON(ValueError):
    """Why some bytes aren't a JSON value that can be stored, as a message for the file's author."""


def loads(body: bytes) -> Any:
    """Parse one JSON value. Raises UnreadableJSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as refusal:
        return _loads_slowly(body, refusal)


def has_more_values(body: bytes, max_values: int) -> bool:
    """Whether JSON text has more than `max_values` values and names, without parsing it: a few MB of brackets take seconds and gigabytes to parse."""
    if len(body) <= max_values or _signs(body) + body.count(b'"') <= max_values:
        return False
    # Some may be inside strings. Text with very many strings has as many values, and would take as long to scan.
    strings = (body.count(b'"') - body.count(b'\\"')) // 2
    return strings > 2 * max_values or _signs(_STRINGS.sub(b"", body)) > max_values


def _signs(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def parse(text: str) -> Any:
    """Parse one JSON value from text, which may contain lone surrogates. Raises UnreadableJSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return loads(text.encode("utf-8", "surrogatepass"))


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in prose, such as a model's answer, nested ones included. The last one comes first, since reasoning models write drafts before it."""
    end = text[-MAX_PROSE:]
    start = end.rfind("{")
    while start >= 0:
        try:
            value, _ = _DECODER.raw_decode(end, start)
        except (ValueError, RecursionError):
            pass
        else:
            yield value
        start = end.rfind("{", 0, start)


def dumps(value: Any) -> bytes:
    """Write a value, keeping the order of keys. Raises UnreadableJSON if it's nested too deeply."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _dumps_slowly(value, sort_keys=False)


def canonical(value: Any) -> bytes:
    """Write a value so that equal values give equal bytes, regardless of key order."""
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
        raise UnreadableJSON(f"Byte {error.start + 1} (0x{body[error.start]:02x}) isn't UTF-8.") from None
    try:
        # strict=False allows raw control characters inside strings; JSON can't represent NaN and Infinity.
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
    """A number beyond a 64-bit float stays text, as NaN does: infinity would be stored as null."""
    value = float(digits)
    return value if math.isfinite(value) else digits


def _dumps_slowly(value: Any, *, sort_keys: bool) -> bytes:
    if _is_deeper_than(value, MAX_DEPTH):
        raise UnreadableJSON(f"Nested deeper than {MAX_DEPTH} levels.")
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=sort_keys).encode()


def is_text_too_deep(text: str, value: Any) -> bool:
    """Whether JSON in a string of a record is nested too deeply to be decoded in place, since the record adds more levels."""
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
