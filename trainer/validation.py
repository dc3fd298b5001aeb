"""Strict JSON <-> frozen dataclasses, with errors that name the field, the value and what was expected.

A config class derives from `Checked`. Types come from its annotations and ranges from `Annotated`, so that
building one in Python and reading one from JSON are held to the same rules.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from trainer.failures import ConfigFailure


@dataclass(frozen=True)
class Above:
    """The value is greater than `limit`."""

    limit: float

    def allows(self, value: float) -> bool:
        return value > self.limit

    def __str__(self) -> str:
        return f"above {self.limit:g}"


@dataclass(frozen=True)
class Between:
    """The value lies in [low, high]."""

    low: float
    high: float

    def allows(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class AtLeast:
    """The value is `limit` or more."""

    limit: float

    def allows(self, value: float) -> bool:
        return value >= self.limit

    def __str__(self) -> str:
        return f"{self.limit:g} or more"


Positive = Annotated[float, Above(0)]
NonNegative = Annotated[float, AtLeast(0)]
Share = Annotated[float, Between(0, 1)]
Count = Annotated[int, AtLeast(1)]
Whole = Annotated[int, AtLeast(0)]


class InvalidField(ConfigFailure):
    """One field is wrong. `field` is its dotted path from the top of the file."""

    def __init__(self, field: str, problem: str, *, advice: str = "") -> None:
        super().__init__(f"{field}: {problem}" if field else problem, advice=advice)
        self.field = field
        self.problem = problem


class Checked:
    """A frozen dataclass whose fields are checked against their annotations whenever one is made."""

    tag: ClassVar[str] = ""
    """Name of the field that tells apart the members of a union of these classes, such as "kind"."""

    def __post_init__(self) -> None:
        for name, hint in hints_of(type(self)).items():
            object.__setattr__(self, name, coerce(getattr(self, name), hint, path=name))
        self.check()

    def check(self) -> None:
        """Refuse combinations of fields that make no sense together. Raises InvalidField."""

    @classmethod
    def from_json(cls, data: object, *, path: str = "") -> Self:
        """Build one from decoded JSON. Raises InvalidField for what is missing, unknown or out of range."""
        if not isinstance(data, Mapping):
            raise InvalidField(path, f"got {shown(data)}, expected an object with {listed(hints_of(cls))}")
        known = hints_of(cls)
        for key in data:
            if key not in known:
                close = get_close_matches(str(key), known, n=1)
                hint = f"Did you mean {close[0]!r}?" if close else f"Known are {listed(known)}."
                raise InvalidField(joined(path, str(key)), "unknown field", advice=hint)
        for field in fields_of(cls):
            if field.name not in data and is_required(field):
                raise InvalidField(joined(path, field.name), "missing", advice=f"Add {field.name!r} to the file.")
        values = {key: coerce(value, known[key], path=joined(path, key)) for key, value in data.items()}
        try:
            return cls(**values)
        except InvalidField as error:
            raise InvalidField(joined(path, error.field), error.problem, advice=error.advice) from None

    def to_json(self) -> dict[str, Any]:
        """Everything, defaults included, so that a stored file still means the same when defaults change."""
        return {field.name: plain(getattr(self, field.name)) for field in fields_of(type(self))}


def coerce(value: Any, hint: Any, *, path: str) -> Any:
    """`value` as `hint` wants it, or InvalidField. The only conversions: int to float, list to tuple, object to class."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *limits = get_args(hint)
        value = coerce(value, inner, path=path)
        for limit in limits:
            if not limit.allows(value):
                raise InvalidField(path, f"got {value!r}, expected {limit}")
        return value
    if origin in (Union, types.UnionType):
        return coerce_union(value, get_args(hint), path=path)
    if origin is Literal:
        if value not in get_args(hint):
            raise InvalidField(path, f"got {shown(value)}, expected {alternatives(get_args(hint))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidField(path, f"got {shown(value)}, expected a list")
        return tuple(coerce(each, get_args(hint)[0], path=f"{path}[{i}]") for i, each in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, Checked):
        return value if isinstance(value, hint) else hint.from_json(value, path=path)
    if hint is float and type(value) is int:
        return float(value)
    if hint in (int, float, str, bool):
        if type(value) is not hint or (hint is float and not isfinite(value)):  # by type: a bool is no int here
            raise InvalidField(path, f"got {shown(value)}, expected {NAMES[hint]}")
        return value
    return value


def coerce_union(value: Any, members: tuple[Any, ...], *, path: str) -> Any:
    if value is None and type(None) in members:
        return None
    rest = [member for member in members if member is not type(None)]
    if len(rest) == 1:
        return coerce(value, rest[0], path=path)
    if any(isinstance(value, member) for member in rest):
        return value
    return choose(rest, value, path=path).from_json(value, path=path)


def choose(members: list[Any], value: Any, *, path: str) -> Any:
    """The member of a union of `Checked` classes that `value` names in its tag."""
    tag: str = members[0].tag
    named = {get_args(hints_of(member)[tag])[0]: member for member in members}
    if not isinstance(value, Mapping):
        raise InvalidField(path, f"got {shown(value)}, expected an object with {tag!r}")
    name = value.get(tag)
    if name not in named:
        raise InvalidField(joined(path, tag), f"got {shown(name)}, expected {alternatives(tuple(named))}")
    return named[name]


NAMES: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def hints_of(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields_of(cls)}


def fields_of(cls: type) -> tuple[Field[Any], ...]:
    assert is_dataclass(cls), f"{cls.__name__} must be a dataclass"
    return fields(cls)


def is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def plain(value: Any) -> Any:
    if isinstance(value, Checked):
        return value.to_json()
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})" if value is not None else text


def listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names)


def alternatives(names: tuple[Any, ...]) -> str:
    return " or ".join(repr(name) for name in names)
