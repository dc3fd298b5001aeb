"""How sure a point of a curve is, or how far what it averages is spread. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from apps.common.proportions import wilson

SHARES = {"success": "rollouts_scored", "eval/success": "eval/rollouts_scored"}
"""Shares, and the metric that counts what each is a share of."""
BUCKET = "lowest to highest of the steps put together"


class Ends(NamedTuple):
    """Of a band, at one step. None where a value was no number."""

    low: float | None
    high: float | None


def band_of(metric: str, measured: Collection[str]) -> str:
    """What the metric's own band spans; empty where its spread was not measured."""
    if SHARES.get(metric, "") in measured:
        return "95 % interval"
    if _extremes_of(metric, measured):
        return "shortest to longest"
    return "± 1 standard deviation" if _deviation_of(metric) in measured else ""


def ends_of(metric: str, values: Mapping[str, float | None]) -> Ends | None:
    """The ends of the metric's own band; None where its spread was not measured."""
    value = values[metric]
    counted = SHARES.get(metric, "")
    if counted in values:
        trials = round(values[counted] or 0)
        return Ends(*wilson(round(value * trials), trials)) if value is not None and trials else None
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
