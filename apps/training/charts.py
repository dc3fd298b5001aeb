"""Which metrics share a chart, in which group, and how they're drawn. Pure. Metric names are TRL's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from apps.training.spreads import band_of

HIDDEN = frozenset({"rewards/total/mean"})
"""TRL logs the sum of all reward functions as one more reward function; it equals `reward`."""
CLOCKS = frozenset({"tokens", "rollouts"})
"""Running totals that can serve as a chart's x axis."""


@dataclass(frozen=True)
class Family:
    """Metrics that share a scale. A `*` in a name matches anything."""

    title: str
    metrics: tuple[str, ...]
    unit: str = ""
    format: str = ""

    @property
    def key(self) -> str:
        """Identifies the family in URLs and in the browser's stored preferences."""
        return self.title.lower().replace(" ", "-")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(metric).replace(r"\*", "[^/]+") for metric in self.metrics))

    def measured(self, metrics: Iterable[str]) -> list[str]:
        """The members of `metrics` that belong to this family, in the order of its names."""
        matching = [metric for metric in sorted(metrics) if self.pattern.fullmatch(metric) and metric not in HIDDEN]
        return sorted(
            matching, key=lambda metric: self.metrics.index(metric) if metric in self.metrics else len(self.metrics)
        )


@dataclass(frozen=True)
class Group:
    """Families that answer one question."""

    title: str
    families: tuple[Family, ...]


@dataclass(frozen=True)
class Axis:
    """A y axis."""

    title: str = ""
    """Empty if the chart's own title is enough."""
    unit: str = ""
    format: str = ""


@dataclass(frozen=True)
class Series:
    """One curve."""

    metric: str
    name: str
    band: str = ""
    """What the band around the curve spans; empty if no spread was measured."""
    is_right: bool = False
    """Drawn against the right axis."""


@dataclass(frozen=True)
class Chart:
    """The content of one figure."""

    key: str
    """Identifies the chart on the page and in the browser's stored preferences."""
    title: str
    group: str
    left: Axis
    series: list[Series]
    right: Axis | None = None


GROUPS = (
    Group(
        "Performance",
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
        "Drift from the base policy",
        (
            Family("KL divergence", ("kl", "eval/kl"), unit="nats"),
            Family("Entropy", ("entropy", "eval/entropy"), unit="nats"),
            Family(
                "Clipped", ("clip_ratio/region_mean", "clip_ratio/low_mean", "clip_ratio/high_mean"), format="percent"
            ),
        ),
    ),
    Group(
        "Rollouts",
        (
            Family("Groups without variance", ("frac_reward_zero_std", "resampled"), format="percent"),
            Family("Length", ("completions/mean_length",), unit="tokens"),
            Family("Turns", ("turns", "eval/turns")),
            Family("Chats per episode", ("chats",)),
            Family("Cut short", ("completions/clipped_ratio",), format="percent"),
            Family("Failed tool calls", ("tools/failure_frequency", "eval/tools/failure_frequency"), format="percent"),
            Family("Tool calls", ("tools/call_frequency", "eval/tools/call_frequency")),
        ),
    ),
    Group(
        "Optimization",
        (
            Family("Loss", ("loss", "eval/loss")),
            Family("Learning rate", ("learning_rate",)),
            Family("Gradient norm", ("grad_norm",)),
        ),
    ),
    Group(
        "Throughput and memory",
        (
            Family("Speed", ("tokens_per_second",), unit="tokens/s"),
            Family("Time per step", ("step_time", "rollout_seconds"), unit="s"),
            Family("Memory", ("memory_mb",), unit="MB"),
        ),
    ),
)
FAMILIES = tuple(family for group in GROUPS for family in group.families)
WORDS = {
    "success": "training",
    "reward": "training",
    "turns": "training",
    "chats": "learned from",
    "tools/failure_frequency": "training",
    "tools/call_frequency": "training",
    "loss": "training",
    "rewards/accuracies": "training",
    "step_accuracy": "training",
    "kl": "training",
    "mean_token_accuracy": "training",
    "rewards/margins": "training",
    "entropy": "training",
    "tokens_per_second": "training",
    "memory_mb": "process",
    "learning_rate": "learning rate",
    "grad_norm": "before clipping",
    "frac_reward_zero_std": "no variance",
    "resampled": "resampled",
    "completions/mean_length": "mean, shortest to longest",
    "completions/clipped_ratio": "at the limit",
    "clip_ratio/region_mean": "either bound",
    "clip_ratio/low_mean": "lower bound",
    "clip_ratio/high_mean": "upper bound",
    "step_time": "whole step",
    "rollout_seconds": "rollouts",
}
OVER_OPTIMIZATION = "Over-optimization"
KL = next(family for family in FAMILIES if "kl" in family.metrics)


def charts_of(metrics: Collection[str], learned: Sequence[str] = ()) -> list[Chart]:
    """A chart for each family with measured metrics, in the order of GROUPS.

    `learned` names the learned reward terms. If there are any, their curves are drawn with those of success in one chart,
    with the KL divergence beside it, right after the first group.
    """
    charts = [
        Chart(
            family.key,
            family.title,
            group.title,
            Axis(unit=family.unit, format=family.format),
            [Series(metric, name_of(metric), band_of(metric, metrics)) for metric in measured],
        )
        for group in GROUPS
        for family in group.families
        if (measured := family.measured(metrics))
    ]
    check = over_optimization(metrics, learned)
    if check is None:
        return charts
    beside = [check, *(replace(chart, group=OVER_OPTIMIZATION) for chart in charts if chart.key == KL.key)]
    first = [chart for chart in charts if chart.group == GROUPS[0].title]
    return [*first, *beside, *(chart for chart in charts if chart not in first and chart.key != KL.key)]


def over_optimization(metrics: Collection[str], learned: Sequence[str]) -> Chart | None:
    """Learned rewards on the left axis, success on the right: the curves diverge when the policy exploits the reward model (Gao et al., 2023).

    Uses held-out success if it was measured, otherwise that of the training rollouts.
    """
    rewards = [
        Series(metric, f"{name}, {'held out' if metric.startswith('eval/') else 'training'}")
        for term in learned
        for metric in (f"rewards/{term}/mean", f"eval/rewards/{term}/mean")
        if metric in metrics
        for name in [term.replace("_", " ")]
    ]
    success = "eval/success" if "eval/success" in metrics else "success"
    if not rewards or success not in metrics:
        return None
    measure = "held-out success" if success == "eval/success" else "success in training"
    return Chart(
        "learned-reward-and-success",
        f"Learned reward against {measure}",
        OVER_OPTIMIZATION,
        Axis(title="learned reward"),
        [*rewards, Series(success, f"{measure} (right axis)", is_right=True)],
        right=Axis(title=measure, format="percent"),
    )


def is_drawn(metric: str) -> bool:
    """Whether some chart draws it, or can use it as the x axis."""
    return metric in CLOCKS or any(family.measured([metric]) for family in FAMILIES)


def name_of(metric: str) -> str:
    """The metric's label in the legend."""
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
