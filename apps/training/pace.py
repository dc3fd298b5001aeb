"""How fast earlier runs of a workspace practiced, from their metrics."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles
from typing import NamedTuple

from django.db.models import Q, QuerySet

from apps.accounts.models import Workspace
from apps.training.models import Metric, Run

NEWEST = 3
"""Runs to go by: what is older met another machine, or another version."""
LEAST_STEPS = 3
ALIKE = 0.1
"""Models whose sizes differ by less count as one size: a run counts its adapters too."""


class Range(NamedTuple):
    """Seconds."""

    low: float
    high: float


class Pace(NamedTuple):
    """How long a step of an earlier run took: all but its slowest and fastest tenth."""

    run: str
    rollouts: int
    """A step."""
    most_tokens: int
    """That one rollout was allowed to write."""
    step: Range
    """Playing and learning."""
    playing: Range


def paces_of(
    workspace: Workspace, *, environment: str, parameters: int, with_adapters: bool, on_gpu: bool | None
) -> list[Pace]:
    """Of the newest online runs in `environment` with a model of this size, trained in the same way on the same kind of device; two queries.

    on_gpu: None where nobody knows.
    """
    runs = _alike(workspace, environment, parameters, with_adapters)
    if on_gpu is not None:
        runs = runs.filter(device__startswith="cuda") if on_gpu else runs.exclude(device__startswith="cuda")
    newest = list(runs.order_by("-pk").only("name", "config")[:NEWEST])
    measured = Metric.objects.filter(run__in=newest, values__has_keys=["step_time", "rollout_seconds"])
    steps: dict[object, list[tuple[float, float]]] = {run.pk: [] for run in newest}
    for run_id, *seconds in measured.values_list("run_id", "values__step_time", "values__rollout_seconds"):
        if None not in seconds:
            steps[run_id].append((seconds[0], seconds[1]))
    return [_pace(run, steps[run.pk]) for run in newest if len(steps[run.pk]) >= LEAST_STEPS]


def _alike(workspace: Workspace, environment: str, parameters: int, with_adapters: bool) -> QuerySet[Run]:
    runs = Run.objects.filter(
        workspace=workspace,
        algorithm__in=(Run.Algorithm.GRPO, Run.Algorithm.RLOO),
        step__gte=LEAST_STEPS,
        parameters__range=(parameters * (1 - ALIKE), parameters * (1 + ALIKE)),
        config__tasks__environment=environment,
    )
    whole_weights = ~Q(config__has_key="lora") | Q(config__lora=None)
    return runs.exclude(whole_weights) if with_adapters else runs.filter(whole_weights)


def _pace(run: Run, steps: Sequence[tuple[float, float]]) -> Pace:
    optimizer, config = run.config["optimizer"], run.config
    return Pace(
        run=run.name,
        rollouts=optimizer["batch_size"] * optimizer["gradient_accumulation"],
        most_tokens=config["budget"]["steps"] * config["sampling"]["max_new_tokens"],
        step=_usual([step for step, _ in steps]),
        playing=_usual([playing for _, playing in steps]),
    )


def _usual(seconds: Sequence[float]) -> Range:
    tenths = quantiles(seconds, n=10, method="inclusive")
    return Range(tenths[0], tenths[-1])
