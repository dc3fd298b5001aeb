"""How a row type is declared: a dataclass with a field for each column of its files, in their order.

Columns to learn from (messages, tools, numbers, booleans) are parsed and checked by type. Text columns about a row (ids, names, annotators)
are only for people, so readers skip them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field, fields
from functools import cache
from math import isfinite
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le
from pydantic import Field, WithJsonSchema

from contract.messages import ROLES, Message, ToolSchema, is_turn
from contract.values import JsonObject

Messages = list[Message]
Share = Annotated[float, Ge(0), Le(1)]
Weight = Annotated[float, Ge(0)]
# Columns of several row types, with their descriptions.
Tools = Annotated[
    list[ToolSchema],
    Field(description="The tools that were offered, as one JSON string."),
    WithJsonSchema({"type": "string"}),
]
RowId = Annotated[str, Field(description="Id of the row.")]
TaskKey = Annotated[str, Field(description="Key of the task.")]
EnvironmentName = Annotated[str, Field(description="Name of the environment.")]
TrajectoryId = Annotated[str, Field(description="Id of the trajectory, empty if there is none.")]
PolicyName = Annotated[str, Field(description="Name of its policy, empty if unknown.")]
Annotators = Annotated[
    list[str],
    Field(
        description="`person:<pseudonym>`, `model:<name>` or `rule:<name>`; a person's pseudonym is the same in every version."
    ),
]
JudgmentIds = Annotated[list[str], Field(description="Ids of the judgments.")]
ItemIds = Annotated[list[str], Field(description="Ids of the queue's items.")]

Kind = Literal["text", "number", "count", "flag", "texts", "numbers", "flags"]
KINDS: dict[Any, Kind] = {
    str: "text",
    float: "number",
    int: "count",
    bool: "flag",
    list[str]: "texts",
    list[float | None]: "numbers",
    list[bool]: "flags",
}


class Column(NamedTuple):
    """One of a row's columns after its messages and tools."""

    name: str
    kind: Kind


def foreign(default: Any) -> Any:
    """A column that Retrace reads from others' files and never writes."""
    return field(default=default, metadata={"is_foreign": True})


@cache
def message_columns(cls: type) -> tuple[str, ...]:
    """The columns that hold lists of messages."""
    return tuple(name for name, hint in _hints(cls) if hint == Messages)


@cache
def extra_columns(cls: type) -> tuple[Column, ...]:
    """The columns after the messages and `tools`."""
    return tuple(Column(name, KINDS[_base_type(hint)]) for name, hint in _hints(cls) if _base_type(hint) in KINDS)


def numbers_in(cls: type, row: JsonObject) -> JsonObject:
    """The values in the numeric columns of `cls`; null counts as missing. Raises ValueError."""
    values = {name: read(row, name) for name, read in _readers(cls)}
    return {name: value for name, value in values.items() if value is not None}


def messages_in(row: JsonObject, name: str) -> list[Message]:
    """Raises ValueError."""
    messages = row.get(name)
    if not isinstance(messages, list) or not messages:
        problem = f"is {described(messages)}" if name in row else "is missing"
        raise ValueError(f"{name} {problem}")
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            raise ValueError(f"{name}[{index}] has the role {role!r}, not one of {', '.join(ROLES)}")
        tool_calls = message.get("tool_calls") or []
        if not isinstance(tool_calls, list):
            raise ValueError(f"{name}[{index}] has tool_calls that are {described(tool_calls)}, not a list")
        for tool_call in tool_calls:
            function = tool_call.get("function") if isinstance(tool_call, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                raise ValueError(f"{name}[{index}] has a tool call without function.name")
    return messages


def completion_in(row: JsonObject, name: str) -> list[Message]:
    """Messages with at least one turn. Raises ValueError."""
    messages = messages_in(row, name)
    if not turns_in(messages):
        raise ValueError(f"{name} has no assistant message, so there is nothing to learn from")
    return messages


def turns_in(messages: list[Message]) -> int:
    """The number of the policy's turns."""
    return sum(map(is_turn, messages))


def tools_in(row: JsonObject) -> list[ToolSchema]:
    """`tools` as a list of schemas; it may be given as JSON text. Raises ValueError."""
    tools = row.get("tools") or []
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError):
            raise ValueError("tools is text but not JSON") from None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError(f"tools is {described(tools)}, not a list of schemas")
    return tools


def number_in(row: JsonObject, name: str) -> float | None:
    """Raises ValueError."""
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{name} is {described(value)}, not a number")
    return float(value)


def weight_in(row: JsonObject, name: str) -> float | None:
    """Raises ValueError."""
    weight = number_in(row, name)
    if weight is not None and weight < 0:
        raise ValueError(f"{name} is {weight:g}, not 0 or more")
    return weight


def share_in(row: JsonObject, name: str) -> float | None:
    """Raises ValueError."""
    share = number_in(row, name)
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"{name} is {share:g}, not from 0 to 1")
    return share


def described(value: Any) -> str:
    """A value in an error: its type and the start of its text."""
    text = json.dumps(value, default=str)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


READERS: dict[Any, Callable[[JsonObject, str], float | None]] = {float: number_in, Weight: weight_in, Share: share_in}
"""Parser of a numeric column, by type."""


@cache
def _readers(cls: type) -> tuple[tuple[str, Callable[[JsonObject, str], float | None]], ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        (field.name, READERS[_without_none(hints[field.name])])
        for field in fields(cls)
        if _without_none(hints[field.name]) in READERS
    )


@cache
def _hints(cls: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple((field.name, hints[field.name]) for field in fields(cls) if "is_foreign" not in field.metadata)


def _without_none(hint: Any) -> Any:
    if type(None) not in get_args(hint):
        return hint
    (rest,) = [argument for argument in get_args(hint) if argument is not type(None)]
    return rest


def _base_type(hint: Any) -> Any:
    hint = _without_none(hint)
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint
