"""Shares with intervals. Pure."""

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

Z95 = 1.959964


@dataclass(frozen=True)
class Share:
    """`count` of `of`, with its 95 % interval; nothing is known where there were none."""

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, Any]:
        return {name: round(v, 4) if isinstance(v, float) else v for name, v in asdict(self).items()}


def share(count: int, of: int) -> Share:
    """With the Wilson score interval (Wilson, 1927), which stays within 0 and 1 and holds for few."""
    if not of:
        return Share(0, 0, None, None, None)
    p = count / of
    centre = (p + Z95**2 / (2 * of)) / (1 + Z95**2 / of)
    half = Z95 * sqrt(p * (1 - p) / of + Z95**2 / (4 * of * of)) / (1 + Z95**2 / of)
    return Share(count, of, p, max(0.0, centre - half), min(1.0, centre + half))
