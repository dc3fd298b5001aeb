"""Which metrics are drawn together, in which group, and how. Pure. The metrics' names are TRL's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

HIDDEN = frozenset({"rewards/total/mean"})
"""TRL counts the sum of all components as a component; it is `reward`."""


class Point(NamedTuple):
    """The values around one step: means, and how far they spread where several steps were put together."""

    step: int
    means: dict[str, float]
    lows: dict[str, float]
    highs: dict[str, float]


class Spread(NamedTuple):
    """The metrics that a curve's band is made of: a deviation around it, or its ends."""

    deviation: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Family:
    """Metrics that share a scale. A `*` in a name stands for whatever was measured."""

    title: str
    metrics: tuple[str, ...]
    unit: str = ""
    format: str = ""

    @property
    def key(self) -> str:
        """Names it in addresses and in what a browser remembers."""
        return self.title.lower().replace(" ", "-")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(metric).replace(r"\*", "[^/]+") for metric in self.metrics))

    def measured(self, metrics: Iterable[str]) -> list[str]:
        """Those of `metrics` that belong here, in the order of the family's names."""
        found = [metric for metric in sorted(metrics) if self.pattern.fullmatch(metric) and metric not in HIDDEN]
        return sorted(
            found, key=lambda metric: self.metrics.index(metric) if metric in self.metrics else len(self.metrics)
        )


@dataclass(frozen=True)
class Group:
    """Families that answer one question."""

    title: str
    families: tuple[Family, ...]


@dataclass(frozen=True)
class Series:
    """A curve, with a band where its spread was measured."""

    metric: str
    name: str
    spread: Spread | None = None

    @property
    def is_sparse(self) -> bool:
        """Measured now and then."""
        return self.metric.startswith("eval/")

    @property
    def columns(self) -> list[str]:
        return [self.metric, *([low_of(self.metric), high_of(self.metric)] if self.spread else [])]


@dataclass(frozen=True)
class Chart:
    """What one figure shows. `rows` hold the step and, for each column, its value as text ("" where there is none)."""

    group: str
    family: Family
    series: list[Series]
    rows: list[tuple[int, list[str]]]

    @property
    def key(self) -> str:
        """Names the figure on the page."""
        return self.family.key

    @property
    def metrics(self) -> str:
        """The metric of each column after the step's."""
        return " ".join(column for each in self.series for column in each.columns)


GROUPS = (
    Group(
        "Is it getting better?",
        (
            Family("Success", ("success", "eval/success", "eval/success/*"), format="percent"),
            Family("Reward", ("reward", "eval/reward")),
            Family("Reward by component", ("rewards/*/mean",)),
            Family("Reward on held-out tasks", ("eval/rewards/*/mean",)),
            Family("Accuracy", ("rewards/accuracies", "eval/rewards/accuracies"), format="percent"),
            Family("Step accuracy", ("step_accuracy", "eval/step_accuracy"), format="percent"),
            Family("Token accuracy", ("mean_token_accuracy", "eval/mean_token_accuracy"), format="percent"),
            Family("Reward margin", ("rewards/margins", "eval/rewards/margins")),
            Family("Rewards", ("rewards/chosen", "rewards/rejected", "rewards/mean", "rewards/min", "rewards/max")),
        ),
    ),
    Group(
        "Is it still itself?",
        (
            Family("Divergence from the base", ("kl", "eval/kl"), unit="nats"),
            Family("Entropy", ("entropy", "eval/entropy"), unit="nats"),
            Family(
                "Clipped", ("clip_ratio/region_mean", "clip_ratio/low_mean", "clip_ratio/high_mean"), format="percent"
            ),
        ),
    ),
    Group(
        "What do its rollouts look like?",
        (
            Family("Groups without variance", ("frac_reward_zero_std", "resampled"), format="percent"),
            Family("Length", ("completions/mean_length",), unit="tokens"),
            Family("Turns", ("turns", "eval/turns")),
            Family("Cut short", ("completions/clipped_ratio",), format="percent"),
            Family("Failed tool calls", ("tools/failure_frequency", "eval/tools/failure_frequency"), format="percent"),
            Family("Tool calls", ("tools/call_frequency", "eval/tools/call_frequency")),
        ),
    ),
    Group(
        "How does it learn?",
        (
            Family("Loss", ("loss", "eval/loss"), unit="nats"),
            Family("Learning rate", ("learning_rate",)),
            Family("Gradient norm", ("grad_norm",)),
        ),
    ),
    Group(
        "What does it cost?",
        (
            Family("Speed", ("tokens_per_second",), unit="tokens/s"),
            Family("Time a step", ("step_time", "rollout_seconds"), unit="s"),
            Family("Memory", ("memory_mb",), unit="MB"),
        ),
    ),
)
FAMILIES = tuple(family for group in GROUPS for family in group.families)
WORDS = {
    "success": "practice",
    "reward": "practice",
    "turns": "practice",
    "tools/failure_frequency": "practice",
    "tools/call_frequency": "practice",
    "loss": "training",
    "rewards/accuracies": "training",
    "step_accuracy": "training",
    "kl": "training",
    "mean_token_accuracy": "training",
    "rewards/margins": "training",
    "entropy": "training",
    "tokens_per_second": "speed",
    "memory_mb": "memory",
    "learning_rate": "learning rate",
    "grad_norm": "before clipping",
    "frac_reward_zero_std": "all the same",
    "resampled": "exchanged",
    "completions/mean_length": "mean, shortest to longest",
    "completions/clipped_ratio": "at the limit",
    "clip_ratio/region_mean": "all",
    "clip_ratio/low_mean": "falls",
    "clip_ratio/high_mean": "rises",
    "step_time": "all of it",
    "rollout_seconds": "rollouts",
}


def charts_of(points: Sequence[Point]) -> list[Chart]:
    """A chart for each family that was measured, in the order of GROUPS. A chart leaves out steps without any of its values."""
    measured = {metric for point in points for metric in point.means}
    charts = []
    for group in GROUPS:
        for family in group.families:
            series = [
                Series(metric, name_of(metric), spread_of(metric, measured)) for metric in family.measured(measured)
            ]
            if not series:
                continue
            columns = [column for each in series for column in each.columns]
            values = [(point.step, with_bands(point.means)) for point in points]
            rows = [(step, [_written(known.get(column)) for column in columns]) for step, known in values]
            charts.append(Chart(group.title, family, series, [row for row in rows if any(row[1])]))
    return charts


def drawn(values: dict[str, float]) -> dict[str, float]:
    """Those of `values` that some chart shows, and the ends of their bands."""
    return {
        metric: value
        for metric, value in with_bands(values).items()
        if any(family.measured([metric.partition(":")[0]]) for family in FAMILIES)
    }


def spread_of(metric: str, measured: Iterable[str]) -> Spread | None:
    """What was measured of a metric's spread."""
    known = set(measured)
    base, _, last = metric.rpartition("/")
    if last == "mean_length" and {f"{base}/min_length", f"{base}/max_length"} <= known:
        return Spread(low=f"{base}/min_length", high=f"{base}/max_length")
    deviation = f"{base}/std" if last == "mean" else f"{metric}_std"
    return Spread(deviation=deviation) if deviation in known else None


def with_bands(values: dict[str, float]) -> dict[str, float]:
    """`values` and, for those whose spread was measured, the ends of their bands."""
    bands: dict[str, float] = {}
    for metric, value in values.items():
        spread = spread_of(metric, values)
        if spread is None:
            continue
        deviation = values.get(spread.deviation, 0.0)
        bands[low_of(metric)] = values[spread.low] if spread.low else value - deviation
        bands[high_of(metric)] = values[spread.high] if spread.high else value + deviation
    return values | bands


def low_of(metric: str) -> str:
    return f"{metric}:low"


def high_of(metric: str) -> str:
    return f"{metric}:high"


def _written(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def name_of(metric: str) -> str:
    """What the legend calls it."""
    if level := metric.partition("eval/success/")[2]:
        return f"held out, {level}"
    if component := re.fullmatch(r"(?:eval/)?rewards/([^/]+)/mean", metric):
        return component[1].replace("_", " ")
    if metric in ("eval/loss", "eval/entropy", "eval/kl") or metric.startswith(
        ("eval/rewards/", "eval/mean_", "eval/step_")
    ):
        return "validation"
    if metric.startswith("eval/"):
        return "held out"
    return WORDS.get(metric, metric.removeprefix("rewards/"))
