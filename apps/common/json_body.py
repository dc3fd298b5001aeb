"""How the API reads the JSON of a request."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from contract.quoting import legible

MOST_DIGITS = 300
"""Of one number. Nothing that is counted or measured here has more, and no float can hold more."""


class StrictJSONParser(JSONParser):
    """Refuses, in words, what JSON allows or Python reads and nobody means.

    That is nesting without end, numbers without end, NaN and infinities, and a name that an object has twice.
    """

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ParseError(f"The body isn't UTF-8: byte {error.start:,} can't be read.") from None
        try:
            return json.loads(
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


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ParseError(f"A number has {len(digits):,} digits; expected at most {MOST_DIGITS}.")
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
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ParseError(f"An object has the name “{legible(twice, 60)}” twice; expected each name once.")
    return value
