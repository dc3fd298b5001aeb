"""A trajectory as a small picture: one cell per step, in lines like text; hue by kind, height by reward or time, a mark at errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from apps.trajectories.rendering.heads import StepHead
from apps.trajectories.rendering.kinds import BY_SLUG, Kind

WIDTH = 224
LINE = 18
TALL = 12
SHORT = 2.5
PER_LINE = 50
LINES = 14

Measure = Literal["reward", "time"]


class Hue(NamedTuple):
    """All cells of a kind as one SVG path."""

    kind: Kind
    path: str


@dataclass(frozen=True)
class Minimap:
    """Sizes are in SVG units; step `i` is in column `i % columns` of line `i // columns`."""

    height: int
    columns: int
    cell: float
    hues: list[Hue]
    errors: str
    measure: Measure | None
    measures: list[Measure]
    count: int

    @property
    def width(self) -> int:
        return WIDTH


def minimap(heads: Sequence[StepHead], measure: str = "") -> Minimap:
    """The map of a trajectory. The default `measure` is reward if rewards differ, or else time if it's known."""
    count = len(heads)
    columns = _columns(count)
    cell = min(16.0, WIDTH / columns)
    measures = _measures(heads)
    chosen: Measure | None = next((m for m in measures if m == measure), measures[0] if measures else None)
    heights = _heights(heads, chosen)
    paths: dict[str, list[str]] = {}
    errors: list[str] = []
    for i, head in enumerate(heads):
        x, line = (i % columns) * cell, i // columns
        bottom = (line + 1) * LINE - 2
        width = cell - (1 if cell >= 4 else 0)
        paths.setdefault(head.kind.slug, []).append(
            f"M{x:.4g} {bottom}v-{heights[i]:.3g}h{width:.4g}v{heights[i]:.3g}z"
        )
        if head.is_error:
            errors.append(f"M{x:.4g} {line * LINE}h{max(width, 2):.4g}v3h-{max(width, 2):.4g}z")
    return Minimap(
        height=max(1, math.ceil(count / columns)) * LINE,
        columns=columns,
        cell=cell,
        hues=[Hue(BY_SLUG[slug], "".join(cells)) for slug, cells in paths.items()],
        errors="".join(errors),
        measure=chosen,
        measures=measures,
        count=count,
    )


def _columns(count: int) -> int:
    if count <= PER_LINE:
        return max(1, count)
    return max(PER_LINE, math.ceil(count / LINES))


def _measures(heads: Sequence[StepHead]) -> list[Measure]:
    measures: list[Measure] = []
    if len({head.reward for head in heads if head.reward is not None}) > 1:
        measures.append("reward")
    if len({head.seconds for head in heads if head.seconds is not None}) > 1:
        measures.append("time")
    return measures


def _heights(heads: Sequence[StepHead], measure: Measure | None) -> list[float]:
    """Bar heights from SHORT to TALL. Times span orders of magnitude, so they are scaled logarithmically."""
    if measure is None:
        return [TALL * 0.7] * len(heads)
    values = [head.reward if measure == "reward" else head.seconds for head in heads]
    scaled = [
        None if v is None or not math.isfinite(v) else math.log1p(max(v, 0)) if measure == "time" else v for v in values
    ]
    numbers = [v for v in scaled if v is not None]
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    span = (high - low) or 1.0
    return [SHORT if v is None else SHORT + (v - low) / span * (TALL - SHORT) for v in scaled]
