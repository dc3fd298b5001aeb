"""What a run measured, thinned where it is long."""

from __future__ import annotations

import math
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from apps.training.models import Metric

MOST_AVERAGED = 32


class Point(NamedTuple):
    """The values around one step: means, and how far they spread where several steps were put together.

    A value that was no number (NaN, infinity) is None.
    """

    step: int
    at: float
    """Seconds since 1970, when the last of the values was logged."""
    means: dict[str, float | None]
    lows: dict[str, float | None]
    highs: dict[str, float | None]

    @property
    def numbers(self) -> dict[str, float]:
        """The means that are numbers."""
        return {name: value for name, value in self.means.items() if value is not None}


def metric_points(run_id: UUID, *, after: int = -1, most: int) -> list[Point]:
    """The run's metrics above step `after`, at most `most` points: where there are more steps, neighbors become their mean.

    A mean is over MOST_AVERAGED evenly spaced steps at most, and over every evaluation, which are few. So a run of 100,000 steps
    costs little more than one of 10,000. The database does the averaging.
    """
    metrics = Metric.objects.filter(run=run_id, step__gt=after)
    first = metrics.order_by("step").values_list("step", flat=True).first()
    last = metrics.order_by("-step").values_list("step", flat=True).first()
    if first is None or last is None:
        return []
    width = max(1, math.ceil((last - first + 1) / most))
    points: dict[int, Point] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT max(step) OVER bucket_of, max(at) OVER bucket_of, name, mean, low, high FROM (
                SELECT (step - %s) / %s AS bucket, max(step) AS step, extract(epoch FROM max(at))::float8 AS at, name,
                       avg(number) AS mean, min(number) AS low, max(number) AS high
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
            [first, width, run_id, after, first, max(1, width // MOST_AVERAGED)],
        )
        for step, at, name, mean, low, high in cursor.fetchall():
            point = points.setdefault(step, Point(step, at, {}, {}, {}))
            point.means[name], point.lows[name], point.highs[name] = mean, low, high
    return list(points.values())
