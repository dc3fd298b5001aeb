"""Several runs side by side: their curves overlaid, and where their settings differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from apps.training.charts import GROUPS, HIDDEN, Family, name_of
from apps.training.models import Run
from apps.training.queries import MOST_AVERAGED

MOST_RUNS = 6
MOST_POINTS = 120
Measured = Mapping[UUID, Mapping[int, Mapping[str, float]]]
"""For each run and step the metrics' values."""


@dataclass(frozen=True)
class Overlay:
    """One metric of all runs. `rows` hold the step and, for each run, its value as text ("" where there is none)."""

    group: str
    title: str
    family: Family
    metric: str
    rows: list[tuple[int, list[str]]]

    @property
    def key(self) -> str:
        """Names the figure on the page."""
        return self.metric.replace("/", "-")


@dataclass(frozen=True)
class Setting:
    """One setting of every run, as text."""

    name: str
    values: list[str]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def overlays(runs: Sequence[Run]) -> list[Overlay]:
    """A chart for each metric that one of the runs measured, in the order of GROUPS. One query."""
    measured = _measured([run.pk for run in runs])
    names = {name for steps in measured.values() for values in steps.values() for name in values} - HIDDEN
    charts = []
    for group in GROUPS:
        for family in group.families:
            found = family.measured(names)
            for metric in found:
                title = f"{family.title}, {name_of(metric)}" if len(found) > 1 else family.title
                charts.append(Overlay(group.title, title, family, metric, _rows(runs, measured, metric)))
    return charts


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """Every setting, those that differ first."""
    flat = [_facts(run) | _flat(run.config) for run in runs]
    names = dict.fromkeys(name for each in flat for name in each)
    settings = [Setting(name, [each.get(name, "–") for each in flat]) for name in names]
    return sorted(settings, key=lambda setting: not setting.differs)


def _facts(run: Run) -> dict[str, str]:
    return {
        "method": run.get_algorithm_display(),
        "version": str(run.version or "–"),
        "base": str(run.base or "scratch"),
        "preset": run.preset or "–",
    }


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{"optimizer": {"batch_size": 4}} -> {"optimizer.batch_size": "4"}"""
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        elif name == "terms" and isinstance(value, list):
            for term in value:
                found |= _flat(term, f"{prefix}{term.get('name') or term.get('component')}.")
        else:
            found[f"{prefix}{name}"] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def _rows(runs: Sequence[Run], measured: Measured, metric: str) -> list[tuple[int, list[str]]]:
    steps = sorted({step for known in measured.values() for step, values in known.items() if metric in values})
    return [(step, [_written(measured.get(run.pk, {}).get(step, {}).get(metric)) for run in runs]) for step in steps]


def _written(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.5g}"


def _measured(run_ids: Sequence[UUID]) -> dict[UUID, dict[int, dict[str, float]]]:
    """At most MOST_POINTS points of each run: where it has more steps, neighbours become their mean."""
    found: dict[UUID, dict[int, dict[str, float]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH span AS (
                SELECT run_id, min(step) AS first, greatest(1, ceil((max(step) - min(step) + 1) / %s::float8)::int) AS width
                FROM training_metric WHERE run_id = ANY(%s) GROUP BY run_id
            )
            SELECT run_id, max(step) OVER (PARTITION BY run_id, bucket), name, mean FROM (
                SELECT metric.run_id, (metric.step - first) / width AS bucket, max(metric.step) AS step, name,
                       avg(value::float8) AS mean
                FROM training_metric AS metric JOIN span ON span.run_id = metric.run_id,
                     jsonb_each("values") AS pair(name, value)
                WHERE jsonb_typeof(value) = 'number'
                  AND ((metric.step - first) %% greatest(1, width / %s) = 0
                       OR "values" ?| ARRAY['eval/loss', 'eval/reward'])
                GROUP BY metric.run_id, bucket, name
            ) AS buckets
            """,
            [MOST_POINTS, list(run_ids), MOST_AVERAGED],
        )
        for run_id, step, name, mean in cursor.fetchall():
            found.setdefault(run_id, {}).setdefault(step, {})[name] = mean
    return found
