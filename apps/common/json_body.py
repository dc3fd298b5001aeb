"""JSON parsing of API requests."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from contract.jsontext import MAX_DIGITS, MAX_VALUES, has_more_values
from contract.quoting import legible


class StrictJSONParser(JSONParser):
    """Refuses, with clear messages, input that JSON or Python allows but nobody intends.

    These are unbounded nesting, unbounded numbers, NaN and infinities, duplicate names in an object, and lists longer than forms
    allow, since validating entries takes far longer than parsing. A body with too many values isn't parsed at all: a few megabytes of
    brackets take a second to parse and a hundred megabytes of memory.
    """

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read()
        if has_more_values(body, MAX_VALUES):
            raise ParseError(f"The body has more than {MAX_VALUES:,} values. Send less at once.")
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ParseError(f"The body isn't UTF-8: byte {error.start:,} can't be read.") from None
        try:
            value = json.loads(
                text,
                parse_int=_whole_number,
                parse_float=_number,
                parse_constant=_constant,
                object_pairs_hook=_object,
            )
        except RecursionError:
            raise ParseError("JSON parse error - it is nested too deeply.") from None
        except ValueError as error:
            raise ParseError(f"JSON parse error - {error}") from None
        _refuse_long_lists(value)
        return value


def _refuse_long_lists(value: Any) -> None:
    limit = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    waiting = [value]
    while waiting:
        entries = waiting.pop()
        if not isinstance(entries, dict | list):
            continue
        if len(entries) > limit:
            kind = "A list" if isinstance(entries, list) else "An object"
            raise ParseError(f"{kind} has {len(entries):,} entries; expected at most {limit:,}.")
        waiting += entries if isinstance(entries, list) else entries.values()


def _whole_number(digits: str) -> int:
    length = len(digits.lstrip("-"))
    if length > MAX_DIGITS:
        raise ParseError(f"A number has {length:,} digits; expected at most {MAX_DIGITS}.")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ParseError(f"The number {legible(digits, 40)} is too large; expected one that 64 bits can hold.")
    return value


def _constant(name: str) -> NoReturn:
    raise ParseError(f"{name} isn't a number in JSON. Send null for a missing value.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        # In one pass: counting each name separately is quadratic, which takes minutes for half a megabyte.
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ParseError(f"An object has the name “{legible(twice, 60)}” twice; expected each name once.")
    return value
