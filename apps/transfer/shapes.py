"""Validates the shape of JSON in rows, as far as pages, REST, and workers rely on it.

pydantic isn't used, since it refuses lone surrogates, which agents do write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from contract import jsontext
from contract.messages import are_calls, checked

Shape = Callable[[Any], None]
"""Raises ValueError if a value doesn't have the shape."""


class Unfit(ValueError):
    """A value of the wrong shape: what it is, and what was expected."""

    def __init__(self, value: Any, expected: str) -> None:
        super().__init__(f"it is {jsontext.describe(value)}, expected {expected}")


def any_value(value: Any) -> None:
    """Any JSON: it's only displayed as text, or passed on."""


def text(value: Any) -> None:
    if type(value) is not str:
        raise Unfit(value, "text")


def flag(value: Any) -> None:
    if type(value) is not bool:
        raise Unfit(value, "true or false")


def whole(value: Any) -> None:
    """An integer of at most 64 bits."""
    if type(value) is not int or abs(value) >= 1 << 63:
        raise Unfit(value, "a whole number of at most 64 bits")


def number(value: Any) -> None:
    if type(value) is float:
        if not math.isfinite(value):
            raise Unfit(value, "a finite number")
    else:
        whole(value)


def mapping(value: Any) -> None:
    """An object with any content."""
    if type(value) is not dict:
        raise Unfit(value, "an object")


def one_of(*shapes: Shape) -> Shape:
    """Any of these shapes; if none fits, the first one's error is raised."""

    def check(value: Any) -> None:
        problems = []
        for shape in shapes:
            try:
                return shape(value)
            except ValueError as problem:
                problems.append(problem)
        raise problems[0]

    return check


def nullable(shape: Shape) -> Shape:
    """The shape, or null."""

    def check(value: Any) -> None:
        if value is not None:
            shape(value)

    return check


def listed(shape: Shape, *, max_length: int | None = None) -> Shape:
    """A list of such values."""

    def check(value: Any) -> None:
        if type(value) is not list:
            raise Unfit(value, "a list")
        if max_length is not None and len(value) > max_length:
            raise ValueError(f"it has {len(value):,} members; at most {max_length:,} are allowed")
        for item in value:
            shape(item)

    return check


def named(shape: Shape) -> Shape:
    """An object with any keys, whose values all have the shape."""

    def check(value: Any) -> None:
        mapping(value)
        for name, item in value.items():
            _at(name, shape, item)

    return check


def having(needed: dict[str, Shape] | None = None, /, **optional: Shape) -> Shape:
    """An object with these fields, and possibly others. Fields given as keyword arguments may be missing."""
    shapes = {**(needed or {}), **optional}

    def check(value: Any) -> None:
        mapping(value)
        for name in needed or ():
            if name not in value:
                raise ValueError(f"it has no “{name}”")
        for name, shape in shapes.items():
            if name in value:
                _at(name, shape, value[name])

    return check


def or_empty_object(shape: Shape) -> Shape:
    """The shape, or an empty object as long as there is nothing."""

    def check(value: Any) -> None:
        if value != {}:
            shape(value)

    return check


def message(value: Any) -> None:
    """A chat message."""
    checked(value, "the chat")
    if value.get("tool_calls") and not are_calls(value["tool_calls"]):
        raise Unfit(value["tool_calls"], "a list of tool calls")


def action(value: Any) -> None:
    """A policy's answer, with or without its role."""
    mapping(value)
    message({"role": "assistant", **value})


def _at(name: str, shape: Shape, value: Any) -> None:
    try:
        shape(value)
    except ValueError as problem:
        raise ValueError(f"{name[:60]}: {problem}") from None


NUMBERS: Final = named(number)
COUNTS: Final = named(whole)
