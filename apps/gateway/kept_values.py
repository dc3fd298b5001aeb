"""Limits how many values of a stream are kept until it ends. Events are small, but an empty list of three bytes takes thirty times as much memory."""

from __future__ import annotations

from typing import Any

from contract.values import Json

MAX_VALUES = 2_000_000
"""Values in one reply or event, including token ids and log-probabilities. More would delay all other calls."""


class NoEvent(ValueError):
    """A server's stream isn't a reply of the protocol."""


class KeptValues:
    """What one streamed reply has kept so far."""

    def __init__(self) -> None:
        self._count = 0

    def put(self, holder: dict[Any, Any], name: Any, value: Json) -> None:
        """Set a field, which may replace an earlier value. Raises NoEvent beyond MAX_VALUES."""
        replaced = 1 + values_in(holder[name]) if name in holder else 0
        self._add(1 + values_in(value) - replaced)
        holder[name] = value

    def extend(self, values: list[Json], more: list[Json]) -> None:
        """Append to a list. Raises NoEvent beyond MAX_VALUES, and if `more` is no list."""
        if not isinstance(more, list):
            raise NoEvent
        self._add(values_in(more))
        values += more

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > MAX_VALUES:
            raise NoEvent


def values_in(value: Json) -> int:
    """The number of values inside a list or an object, at any depth."""
    if not isinstance(value, list | dict):
        return 0  # as nearly always in a stream
    count = 0
    waiting: list[Any] = [value]
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            container = container.values()
        elif not isinstance(container, list):
            continue
        count += len(container)
        waiting += [child for child in container if isinstance(child, list | dict)]
    return count
