"""Settings by their dotted paths, such as `optimizer.batch_size`, or `rewards.terms[0].measure` within a list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from contract.configs.declaration import Config

PART = re.compile(r"(?P<name>\w+)(?:\[(?P<index>\d+)\])?")


def at(config: Config | None, path: str) -> Any:
    """The value at a path; None where a part is missing."""
    value: Any = config
    for part in path.split("."):
        name, index = _name_and_index(part)
        value = getattr(value, name, None)
        if index is not None:
            value = value[index] if isinstance(value, list | tuple) and index < len(value) else None
    return value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"optimizer.batch_size": 4} -> {"optimizer": {"batch_size": 4}}"""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *parents, name = path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = value
    return tree


def replaced(values: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a config's JSON with `value` at the path. Objects that are missing on the way are made; lists must be there."""
    name, index = _name_and_index(path.partition(".")[0])
    rest = path.partition(".")[2]
    if index is None:
        return {**values, name: replaced(values.get(name) or {}, rest, value) if rest else value}
    items = list(values[name])
    items[index] = replaced(items[index], rest, value) if rest else value
    return {**values, name: items}


def _name_and_index(part: str) -> tuple[str, int | None]:
    """terms[0] -> ("terms", 0)"""
    match = PART.fullmatch(part)
    if match is None:
        return part, None
    return match["name"], None if match["index"] is None else int(match["index"])


def value_text(value: Any) -> str:
    """A setting's value in a sentence."""
    return ("on" if value else "off") if isinstance(value, bool) else written(value)


def written(value: Any) -> str:
    """A setting's value as one would type it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case tuple() | list():
            return " ".join(map(str, value))
        case _:
            return str(value)
