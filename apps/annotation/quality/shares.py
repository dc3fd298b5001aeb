"""Proportions with intervals. Pure."""

from dataclasses import asdict, dataclass
from typing import Any

from apps.common.proportions import wilson


@dataclass(frozen=True)
class Share:
    """`count` of `of`, with its 95% interval; undefined if `of` is 0."""

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, Any]:
        return {name: round(v, 4) if isinstance(v, float) else v for name, v in asdict(self).items()}


def share(count: int, of: int, *, items: int | None = None) -> Share:
    """`count` of `of`, with its interval. If they're parts of fewer `items`, such as steps of trajectories, only those count as independent trials."""
    if not of:
        return Share(0, 0, None, None, None)
    trials = of if items is None else items
    return Share(count, of, count / of, *wilson(count / of * trials, trials))
