"""A run's curves as pages fetch them: first all, then what's new after a step. Long series are downsampled."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.training.charts import CLOCKS, GROUPS, WORDS, Chart, charts_of, is_drawn
from apps.training.kept_rollouts import sampled
from apps.training.models import Metric, Run
from apps.training.spreads import BUCKET, Ends, ends_of

MAX_AVERAGED = 32


class Point(NamedTuple):
    """The values around one step: means, and their spread where several steps were merged.

    Non-finite values (NaN, infinity) are None.
    """

    step: int
    at: float
    """Unix time in seconds at which the last of the values was logged."""
    means: dict[str, float | None]
    lows: dict[str, float | None]
    highs: dict[str, float | None]

    @property
    def numbers(self) -> dict[str, float]:
        """The finite means."""
        return {name: value for name, value in self.means.items() if value is not None}


def metric_points(run_id: UUID, *, after: int = -1, max_points: int) -> list[Point]:
    """The run's metrics after step `after`, as at most `max_points` points; if there are more steps, neighbors are averaged.

    A mean covers at most MAX_AVERAGED evenly spaced steps, plus every evaluation, since those are few. So a run of 100,000 steps
    costs little more than one of 10,000. The database does the averaging.
    """
    metrics = Metric.objects.filter(run=run_id, step__gt=after)
    first = metrics.order_by("step").values_list("step", flat=True).first()
    last = metrics.order_by("-step").values_list("step", flat=True).first()
    if first is None or last is None:
        return []
    width = max(1, math.ceil((last - first + 1) / max_points))
    points: dict[int, Point] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            -- sum/count, because avg squares what it adds up: a gradient of 1e200 would be out of its range
            SELECT max(step) OVER bucket_of, max(at) OVER bucket_of, name, mean, low, high FROM (
                SELECT (step - %s) / %s AS bucket, max(step) AS step, extract(epoch FROM max(at))::float8 AS at, name,
                       sum(number) / count(number) AS mean, min(number) AS low, max(number) AS high
                FROM (
                    SELECT step, at, name, CASE jsonb_typeof(value) WHEN 'number' THEN value::float8 END AS number
                    FROM training_metric, jsonb_each("values") AS pair(name, value)
                    WHERE run_id = %s AND step > %s
                      AND ((step - %s) %% %s = 0 OR "values" ?| ARRAY['eval/loss', 'eval/reward'])
                    OFFSET 0  -- so that a value is read once, not once for each aggregate
                ) AS measured
                GROUP BY 1, name
            ) AS buckets WINDOW bucket_of AS (PARTITION BY bucket) ORDER BY bucket, name
            """,
            [first, width, run_id, after, first, max(1, width // MAX_AVERAGED)],
        )
        for step, at, name, mean, low, high in cursor.fetchall():
            point = points.setdefault(step, Point(step, at, {}, {}, {}))
            point.means[name], point.lows[name], point.highs[name] = mean, low, high
    return list(points.values())


MAX_POINTS = 400
DECLARATION = hashlib.sha256(repr((GROUPS, WORDS, MAX_POINTS)).encode()).hexdigest()[:8]
"""Changes when the same measurements would be displayed differently."""


def state_of(run: Run, *, after: int) -> str:
    """Changes whenever the result of `series_of` would."""
    steps = sampled(run).steps
    parts = (run.pk.hex, run.attempt, run.events_seq, run.step, len(steps), max(steps, default=0), after, DECLARATION)
    return "-".join(map(str, parts))


def series_of(run: Run, *, after: int = -1) -> dict[str, Any]:
    """The metrics after step `after`, as JSON: columns over rows of steps, and the charts that show them.

    {
        "steps": [1, 2, 5],
        "seconds": [0.0, 1.5, 6.0],             # since the run's first measurement
        "columns": {"eval/loss": {"rows": [2], "values": [0.7]}, "loss": {"values": [0.9, null, 0.8], "lows": …, "highs": …}},
        "charts": [{"key": "loss", "title": "Loss", "group": …, "left": {"unit": "", …}, "series": [{"metric": "loss", …}]}],
        "sampled": [5]                          # steps whose rollouts can be opened
    }

    A column without `rows` has a value in every row. Non-finite values are null; missing ones are left out.
    """
    points = metric_points(run.pk, after=after, max_points=MAX_POINTS)
    started_at = _began(run) if points else 0.0
    measured = {name for point in points for name in point.means}
    charts = charts_of(measured, learned=list(run.rewards.order_by("term").values_list("term", flat=True)))
    averaged = {name for point in points for name in point.means if point.lows[name] != point.highs[name]}
    return {
        "steps": [point.step for point in points],
        "seconds": [round(point.at - started_at, 3) for point in points],
        "columns": {name: _column(points, name, name in averaged) for name in sorted(measured) if is_drawn(name)},
        "charts": [_as_json(chart, averaged) for chart in charts],
        "sampled": sampled(run).steps,
    }


def table_of(chart: Chart, points: Sequence[Point]) -> Iterator[tuple[int, list[float | None]]]:
    """Each step with the value of every series of the chart, for steps that have at least one."""
    for point in points:
        values = [point.means.get(series.metric) for series in chart.series]
        if any(value is not None for value in values):
            yield point.step, values


def _began(run: Run) -> float:
    first = run.metrics.order_by("step").values_list("at", flat=True).first()
    return first.timestamp() if first else 0.0


def _column(points: Sequence[Point], name: str, is_averaged: bool) -> dict[str, Any]:
    """A metric's column: for running totals, the value of the last merged step; for everything else, the mean with the ends of its band."""
    rows = [row for row, point in enumerate(points) if name in point.means]
    chosen_points = [points[row] for row in rows]
    values = [point.highs[name] if name in CLOCKS else point.means[name] for point in chosen_points]
    column: dict[str, Any] = {} if len(rows) == len(points) else {"rows": rows}
    column["values"] = [_short(value) for value in values]
    if name in CLOCKS:
        return column
    bands = [ends_of(name, point.means) for point in chosen_points]
    if is_averaged and not any(bands):
        bands = [Ends(point.lows[name], point.highs[name]) for point in chosen_points]
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
    """Rounded to six significant digits: more than a screen shows, less than the JSON of a double."""
    return None if value is None else float(f"{value:.6g}")
