"""A policy's figures, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any, NamedTuple

from apps.common.quantities import duration, figure

Z95 = 1.959964


class Share(NamedTuple):
    """How often it succeeded, with its 95 % interval."""

    succeeded: int
    played: int
    value: float
    low: float
    high: float


def held_out_of(succeeded: int | None, played: int | None) -> Share | None:
    """The Wilson score interval (Wilson, 1927); None where nothing was played."""
    if not played:
        return None
    wins = succeeded or 0
    share, z2 = wins / played, Z95**2
    middle = (share + z2 / (2 * played)) / (1 + z2 / played)
    half = Z95 / (1 + z2 / played) * sqrt(share * (1 - share) / played + z2 / (4 * played**2))
    return Share(wins, played, share, max(0.0, middle - half), min(1.0, middle + half))


class Figure(NamedTuple):
    """One line of a report. `before` is empty for what is measured once."""

    name: str
    before: str
    after: str


NAMES = {
    "loss": "validation loss",
    "rewards/accuracies": "validation accuracy",
    "rewards/margins": "validation reward margin",
    "mean_token_accuracy": "validation token accuracy",
}


def report_rows(report: Mapping[str, Any]) -> list[Figure]:
    """What the run measured, before and after, in the order that matters."""
    return list(_rows(report))


def _rows(report: Mapping[str, Any]) -> Iterator[Figure]:
    validation = report.get("validation") or {}
    before, after = validation.get("before") or {}, validation.get("after") or {}
    for key, name in NAMES.items():
        if key in after:
            yield Figure(name, figure(before.get(key)), figure(after[key]))
    loss = report.get("loss") or {}
    if "last" in loss:
        yield Figure("training loss", figure(loss.get("first")), figure(loss["last"]))
    if rows := (report.get("rows") or {}).get("train"):
        yield Figure("training rows used", "", f"{rows:,}")
    if "seconds" in report:
        yield Figure("time", "", duration(report["seconds"]))
    if "peak_memory_mb" in report:
        yield Figure("peak memory", "", f"{report['peak_memory_mb']:,.0f} MB")
