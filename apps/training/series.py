"""A run's curves as pages fetch them: once, and then what is new after a step."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from apps.training.charts import CLOCKS, GROUPS, WORDS, Chart, charts_of, is_drawn
from apps.training.kept_rollouts import sampled
from apps.training.metrics import Point, metric_points
from apps.training.models import Run
from apps.training.spreads import BUCKET, Ends, ends_of

MOST_POINTS = 400
DECLARATION = hashlib.sha256(repr((GROUPS, WORDS, MOST_POINTS)).encode()).hexdigest()[:8]
"""Changes when the same measurements would be shown in another way."""


def state_of(run: Run, *, after: int) -> str:
    """Changes whenever `series_of` would answer something else."""
    steps = sampled(run).steps
    parts = (run.pk.hex, run.attempt, run.events_seq, run.step, len(steps), max(steps, default=0), after, DECLARATION)
    return "-".join(map(str, parts))


def series_of(run: Run, *, after: int = -1) -> dict[str, Any]:
    """What was measured above step `after`, as JSON: columns over rows of steps, and the charts that show them.

    {
        "steps": [1, 2, 5],
        "seconds": [0.0, 1.5, 6.0],             # since the run's first measurement
        "columns": {"eval/loss": {"rows": [2], "values": [0.7]}, "loss": {"values": [0.9, null, 0.8], "lows": …, "highs": …}},
        "charts": [{"key": "loss", "title": "Loss", "group": …, "left": {"unit": "nats", …}, "series": [{"metric": "loss", …}]}],
        "sampled": [5]                          # steps whose rollouts can be opened
    }

    A column without `rows` has a value in every row. What was no number is null; what was not measured is left out.
    """
    points = metric_points(run.pk, after=after, most=MOST_POINTS)
    began = _began(run) if points else 0.0
    measured = {name for point in points for name in point.means}
    charts = charts_of(measured, learned=list(run.rewards.order_by("term").values_list("term", flat=True)))
    averaged = {name for point in points for name in point.means if point.lows[name] != point.highs[name]}
    return {
        "steps": [point.step for point in points],
        "seconds": [round(point.at - began, 3) for point in points],
        "columns": {name: _column(points, name, name in averaged) for name in sorted(measured) if is_drawn(name)},
        "charts": [_as_json(chart, averaged) for chart in charts],
        "sampled": sampled(run).steps,
    }


def table_of(chart: Chart, points: Sequence[Point]) -> Iterator[tuple[int, list[float | None]]]:
    """The step and, for each series of the chart, its value, where there is one of any."""
    for point in points:
        values = [point.means.get(series.metric) for series in chart.series]
        if any(value is not None for value in values):
            yield point.step, values


def _began(run: Run) -> float:
    first = run.metrics.order_by("step").values_list("at", flat=True).first()
    return first.timestamp() if first else 0.0


def _column(points: Sequence[Point], name: str, is_averaged: bool) -> dict[str, Any]:
    """The clocks of a thinned run are those of the last step put together; everything else is a mean, with the ends of its band."""
    rows = [row for row, point in enumerate(points) if name in point.means]
    known = [points[row] for row in rows]
    values = [point.highs[name] if name in CLOCKS else point.means[name] for point in known]
    column: dict[str, Any] = {} if len(rows) == len(points) else {"rows": rows}
    column["values"] = [_short(value) for value in values]
    if name in CLOCKS:
        return column
    bands = [ends_of(name, point.means) for point in known]
    if is_averaged and not any(bands):
        bands = [Ends(point.lows[name], point.highs[name]) for point in known]
    if any(bands):
        column["lows"] = [_short(band.low) if band else None for band in bands]
        column["highs"] = [_short(band.high) if band else None for band in bands]
    return column


def _as_json(chart: Chart, averaged: Collection[str]) -> dict[str, Any]:
    declared = asdict(chart)
    for series in declared["series"]:
        if series["metric"] in averaged:
            series["band"] = series["band"] or BUCKET
    return declared


def _short(value: float | None) -> float | None:
    """Six digits: more than a screen shows, less than a double takes on its way."""
    return None if value is None else float(f"{value:.6g}")
