"""Settings by their dotted paths, such as `optimizer.batch_size`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.configs.declaration import Config


def at(config: Config | None, path: str) -> Any:
    """The value at a path; None where a part is missing."""
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"optimizer.batch_size": 4} -> {"optimizer": {"batch_size": 4}}"""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *parents, name = path.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return tree


def in_words(value: Any) -> str:
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
