"""Which metrics are drawn together, and how. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Point(NamedTuple):
    """The values around one step: means, and how far they spread where several steps were put together."""

    step: int
    means: dict[str, float]
    lows: dict[str, float]
    highs: dict[str, float]


@dataclass(frozen=True)
class Family:
    """Metrics that share a scale."""

    title: str
    metrics: tuple[str, ...]
    unit: str = ""
    format: str = ""
    scale: str = ""


@dataclass(frozen=True)
class Series:
    """A curve."""

    metric: str
    name: str


@dataclass(frozen=True)
class Chart:
    """What one figure shows. `rows` hold the step and, for each series, its value as text ("" where there is none)."""

    family: Family
    series: list[Series]
    rows: list[tuple[int, list[str]]]

    @property
    def key(self) -> str:
        """Names the figure on the page."""
        return self.family.title.lower().replace(" ", "-")

    @property
    def metrics(self) -> str:
        return " ".join(each.metric for each in self.series)


FAMILIES = (
    Family("Loss", ("loss", "eval/loss"), unit="nats"),
    Family("Accuracy", ("rewards/accuracies", "eval/rewards/accuracies"), format="percent"),
    Family("Step accuracy", ("step_accuracy", "eval/step_accuracy"), format="percent"),
    Family("Divergence from the base", ("kl", "eval/kl"), unit="nats"),
    Family("Token accuracy", ("mean_token_accuracy", "eval/mean_token_accuracy"), format="percent"),
    Family("Reward margin", ("rewards/margins", "eval/rewards/margins")),
    Family("Rewards", ("rewards/chosen", "rewards/rejected", "rewards/mean", "rewards/min", "rewards/max")),
    Family("Entropy", ("entropy", "eval/entropy"), unit="nats"),
    Family("Learning rate", ("learning_rate",)),
    Family("Gradient norm", ("grad_norm",)),
    Family("Speed", ("tokens_per_second",), unit="tokens/s"),
    Family("Memory", ("memory_mb",), unit="MB"),
)
DRAWN = frozenset(metric for family in FAMILIES for metric in family.metrics)
WORDS = {
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
}


def charts_of(points: Sequence[Point]) -> list[Chart]:
    """A chart for each family that was measured, in the order of FAMILIES. A chart leaves out steps without any of its values."""
    measured = {metric for point in points for metric in point.means}
    charts = []
    for family in FAMILIES:
        series = [Series(metric, name_of(metric)) for metric in family.metrics if metric in measured]
        if not series:
            continue
        rows = [(point.step, [_written(point.means.get(each.metric)) for each in series]) for point in points]
        charts.append(Chart(family, series, [row for row in rows if any(row[1])]))
    return charts


def drawn(values: dict[str, float]) -> dict[str, float]:
    """Those of `values` that some chart shows."""
    return {metric: value for metric, value in values.items() if metric in DRAWN}


def _written(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def name_of(metric: str) -> str:
    """What the legend calls it."""
    if metric.startswith("eval/"):
        return "validation"
    return WORDS.get(metric, metric.removeprefix("rewards/"))
