"""Reads the annotation of a field: union members, item type, range."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from contract.configs.declaration import Config


class Range(NamedTuple):
    """The allowed range of a number."""

    low: float | None = None
    """The minimum; None means no minimum."""
    high: float | None = None
    """The greatest."""
    is_open: bool = False
    """The minimum is exclusive."""

    def __str__(self) -> str:
        if self.low is not None and self.high is not None and not self.is_open:
            return f"{self.low:,g} to {self.high:,g}" if self.high < 1e6 else f"{self.low:,.0f} to {self.high:,.0f}"
        low = f"above {self.low:g}" if self.is_open else "" if self.low is None else f"{self.low:g} or more"
        high = "" if self.high is None else f"at most {self.high:,.0f}"
        return " and ".join(part for part in (low, high) if part)


def range_of(field: FieldInfo) -> Range:
    """The range declared in the field's metadata."""
    low = high = None
    is_open = False
    for fact in field.metadata:
        match fact:
            case Ge():
                low, is_open = float(fact.ge), False  # type: ignore[arg-type]  # all our limits are numbers
            case Gt():
                low, is_open = float(fact.gt), True  # type: ignore[arg-type]  # all our limits are numbers
            case Le():
                high = float(fact.le)  # type: ignore[arg-type]  # all our limits are numbers
            case Lt():
                high = float(fact.lt)  # type: ignore[arg-type]  # all our limits are numbers
    return Range(low, high, is_open)


def bare(hint: Any) -> Any:
    """The type without `Annotated` and without `None`."""
    if get_origin(hint) is Annotated:
        return bare(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        rest = [argument for argument in get_args(hint) if argument is not type(None)]
        return bare(rest[0]) if len(rest) == 1 else hint
    return hint


def members_of(hint: Any) -> tuple[type[Config], ...]:
    """The config classes in `hint`: one, the members of a union, or none."""
    hint = bare(hint)
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))  # type: ignore[misc]  # all our models are configs


def is_list(hint: Any) -> bool:
    return get_origin(bare(hint)) is tuple


def item_of(hint: Any) -> Any:
    return get_args(bare(hint))[0]


def is_optional(hint: Any) -> bool:
    return type(None) in get_args(hint)
