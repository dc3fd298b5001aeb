"""The pace of earlier runs: online runs from their metrics, runs on a version from their recorded measurements."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from apps.accounts.models import Workspace
from apps.datasets.models import Version
from apps.training.models import Metric, Run

MAX_RUNS = 3
"""Runs to consider; older ones ran on other machines or releases."""
MIN_STEPS = 3
SAME_SIZE = 0.1
"""Relative difference in parameters below which two models count as the same size, since a run's count includes its adapters."""


class Range(NamedTuple):
    """A range in seconds."""

    low: float
    high: float


class ModelProfile(NamedTuple):
    """What two runs must share for their paces to be comparable: model size, training method, and kind of device."""

    parameters: int
    with_adapters: bool
    on_gpu: bool | None
    """None if unknown."""

    def filter_runs(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        runs = runs.filter(parameters__range=(self.parameters * (1 - SAME_SIZE), self.parameters * (1 + SAME_SIZE)))
        if self.on_gpu is not None:
            runs = runs.filter(device__startswith="cuda") if self.on_gpu else runs.exclude(device__startswith="cuda")
        whole_weights = ~Q(config__has_key="lora") | Q(config__lora=None)
        return runs.exclude(whole_weights) if self.with_adapters else runs.filter(whole_weights)


class Pace(NamedTuple):
    """The duration of an earlier run's steps, without the slowest and fastest tenth."""

    run: str
    rollouts: int
    """Rollouts per step."""
    max_tokens: int
    """Token limit of one rollout."""
    step: Range
    """Generating rollouts and updating the policy."""
    playing: Range


def paces_of(workspace: Workspace, profile: ModelProfile, *, environment: str) -> list[Pace]:
    """Paces of the newest online runs in `environment` with a comparable model; two queries."""
    runs: QuerySet[Run] = Run.objects.filter(
        workspace=workspace,
        algorithm__in=(Run.Algorithm.GRPO, Run.Algorithm.RLOO),
        step__gte=MIN_STEPS,
        config__tasks__environment=environment,
    )
    runs = profile.filter_runs(runs)
    newest = list(runs.order_by("-pk").only("name", "config")[:MAX_RUNS])
    metrics = Metric.objects.filter(run__in=newest, values__has_keys=["step_time", "rollout_seconds"])
    steps: dict[object, list[tuple[float, float]]] = {run.pk: [] for run in newest}
    for run_id, *seconds in metrics.values_list("run_id", "values__step_time", "values__rollout_seconds"):
        if None not in seconds:
            steps[run_id].append((seconds[0], seconds[1]))
    return [_pace(run, steps[run.pk]) for run in newest if len(steps[run.pk]) >= MIN_STEPS]


def _pace(run: Run, steps: Sequence[tuple[float, float]]) -> Pace:
    optimizer, config = run.config["optimizer"], run.config
    return Pace(
        run=run.name,
        rollouts=optimizer["batch_size"] * optimizer["gradient_accumulation"],
        max_tokens=config["budget"]["steps"] * config["sampling"]["max_new_tokens"],
        step=_typical_range([step for step, _ in steps]),
        playing=_typical_range([playing for _, playing in steps]),
    )


def _typical_range(seconds: Sequence[float]) -> Range:
    tenths = quantiles(seconds, n=10, method="inclusive")
    return Range(tenths[0], tenths[-1])


class EarlierRun(NamedTuple):
    """The duration of a finished run's steps, and the work in each."""

    version: Version
    config: dict[str, Any]
    step_seconds: float
    evaluation_seconds: float | None


def earlier_runs(profile: ModelProfile, *, algorithm: str) -> list[EarlierRun]:
    """The newest runs of this installation that trained a comparable model on a version.

    Across all workspaces: only their number is shown, and hardware speed doesn't depend on the workspace. One query.
    """
    runs = profile.filter_runs(
        Run.objects.filter(state=Run.State.FINISHED, algorithm=algorithm, step_seconds__isnull=False)
    )
    newest = runs.select_related("version").order_by("-finished_at")[:MAX_RUNS]
    return [
        EarlierRun(run.version, run.config, run.step_seconds, run.evaluation_seconds)
        for run in newest
        if run.version is not None and run.step_seconds is not None
    ]
