"""Uncertainty or spread around the points of a curve. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from apps.common.proportions import wilson

SHARES = {"success": "rollouts_scored", "eval/success": "eval/rollouts_scored"}
"""Metrics that are proportions, each with the metric that holds its denominator."""
MAX_TRIALS = 1e9
BUCKET = "lowest to highest of the merged steps"


class Ends(NamedTuple):
    """The ends of a band at one step; None for a non-finite value."""

    low: float | None
    high: float | None


def band_of(metric: str, measured: Collection[str]) -> str:
    """What the metric's band spans; empty if its spread wasn't measured."""
    if SHARES.get(metric, "") in measured:
        return "95 % interval"
    if _extremes_of(metric, measured):
        return "shortest to longest"
    return "± 1 standard deviation" if _deviation_of(metric) in measured else ""


def ends_of(metric: str, values: Mapping[str, float | None]) -> Ends | None:
    """The ends of the metric's band; None if its spread wasn't measured."""
    value = values[metric]
    counted = SHARES.get(metric, "")
    if counted in values:
        trials = values[counted] or 0
        # Checked, since a run may come from an archive.
        if value is None or not 0 <= value <= 1 <= trials <= MAX_TRIALS:
            return None
        return Ends(*wilson(round(value * round(trials)), round(trials)))
    if extremes := _extremes_of(metric, values):
        return Ends(values[extremes[0]], values[extremes[1]])
    if (deviation := _deviation_of(metric)) in values:
        spread = values[deviation]
        return Ends(None, None) if value is None or spread is None else Ends(value - spread, value + spread)
    return None


def _extremes_of(metric: str, measured: Collection[str]) -> tuple[str, str] | None:
    base, _, last = metric.rpartition("/")
    ends = f"{base}/min_length", f"{base}/max_length"
    return ends if last == "mean_length" and all(end in measured for end in ends) else None


def _deviation_of(metric: str) -> str:
    base, _, last = metric.rpartition("/")
    return f"{base}/std" if last == "mean" else f"{metric}_std"
