"""Converts columns to JSON and back. Values read are untrusted: the type, the choices, and the field's validators are checked."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import models
from django.db.models import Field

from contract import jsontext

if TYPE_CHECKING:
    AnyField: TypeAlias = Field[Any, Any]
else:
    AnyField = Field  # Django's fields aren't generic at run time


LARGEST: Final = 1e300
MAX_SECONDS: Final = 1e10


class BadValue(ValueError):
    """An invalid value: what it is, and what its column expects."""

    def __init__(self, actual: str, expected: str) -> None:
        super().__init__(actual)
        self.expected = expected


def written(column: AnyField, value: Any) -> Any:
    """A column's value as JSON. References are written by the caller."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(column, ArrayField):
        return [written(column.base_field, item) for item in value]
    if isinstance(column, models.JSONField):
        return value
    match value:
        case float():
            return value if math.isfinite(value) else str(value)  # JSON has no NaN
        case UUID() | Decimal():
            return str(value)
        case datetime():
            return value.isoformat()
        case bytes() | memoryview():
            return base64.b64encode(value).decode()
    raise TypeError(f"{column} holds {type(value)}, which archives have no form for.")


def read(column: AnyField, value: Any) -> Any:
    """The value of a column from JSON. Raises BadValue."""
    if value is None:
        if not column.null:
            raise BadValue("null", "a value")
        return None
    if isinstance(column, models.JSONField):
        return value
    if isinstance(column, ArrayField):
        if not isinstance(value, list):
            raise BadValue(jsontext.describe(value), "a list")
        return [read(column.base_field, item) for item in value]
    parsed = _parsed(column, value)
    if column.choices and parsed not in dict(column.flatchoices):
        if not (column.blank and parsed == ""):
            raise BadValue(
                f"“{str(parsed)[:60]}”", "one of " + ", ".join(str(choice) for choice, _ in column.flatchoices)
            )
        return parsed
    if isinstance(parsed, float):
        if column.name == "reward" and not math.isfinite(parsed):
            return None  # as in all imports
        _refuse_extremes(column, parsed)
    try:
        for validate in column.validators if parsed not in column.empty_values else ():
            # It refuses names of hosts in private networks, such as `vllm`. The table checks addresses by Retrace's own rules.
            if not isinstance(validate, URLValidator):
                validate(parsed)
    except ValidationError as problem:
        raise BadValue(f"“{str(parsed)[:60]}”", " ".join(problem.messages)) from None
    return parsed


def _parsed(column: AnyField, value: Any) -> Any:
    for kind, (parse, expected) in PARSERS.items():
        if isinstance(column, kind):
            try:
                return parse(value)
            except (TypeError, ValueError, InvalidOperation, binascii.Error):
                raise BadValue(f"{jsontext.describe(value)}", expected) from None
    raise TypeError(f"Archives have no form for {column}.")


def _refuse_extremes(column: AnyField, number: float) -> None:
    """Refuse values that would break sums and durations. Raises BadValue."""
    limit = MAX_SECONDS if "seconds" in column.name else LARGEST
    if not abs(number) <= limit:
        raise BadValue(f"{number:g}", f"a number from {-limit:g} to {limit:g}")


def _of(*types: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return parse


def _text(value: Any) -> str:
    text: str = _of(str)(value)
    text.encode()  # a lone surrogate raises UnicodeEncodeError, which is a ValueError
    if "\0" in text:
        raise ValueError
    return text


def _float(value: Any) -> float:
    return float(_of(float, int, str)(value))


def _datetime(value: Any) -> datetime:
    time = datetime.fromisoformat(_of(str)(value))
    if time.tzinfo is None or not 1970 <= time.year <= 2200:
        raise ValueError
    return time


TEXT: Final = "a string without null characters or lone surrogates"
PARSERS: Final[dict[type[AnyField], tuple[Callable[[Any], Any], str]]] = {
    models.BooleanField: (_of(bool), "true or false"),
    models.IntegerField: (_of(int), "a whole number"),
    models.FloatField: (_float, "a number"),
    models.DecimalField: (lambda value: Decimal(_of(str)(value)), "a decimal number in a string"),
    models.DateTimeField: (_datetime, "a time with its zone, as in ISO 8601, from 1970 to 2200"),
    models.UUIDField: (lambda value: UUID(_of(str)(value)), "an id"),
    models.BinaryField: (lambda value: base64.b64decode(_of(str)(value), validate=True), "bytes in base64"),
    models.CharField: (_text, TEXT),
    models.TextField: (_text, TEXT),
}
