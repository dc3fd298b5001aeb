"""Formats a policy's report for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from apps.common.quantities import duration, figure, percent


class Figure(NamedTuple):
    """One line of a report. `before` is empty for figures measured once."""

    name: str
    before: str
    after: str


NAMES = {
    "loss": "validation loss",
    "rewards/accuracies": "validation accuracy",
    "rewards/margins": "validation reward margin",
    "mean_token_accuracy": "validation token accuracy",
}


SHARES = {
    "held_out_accuracy": "held-out pairs ranked correctly",
    "length_bias.model_prefers_longer": "longer trajectory preferred by the model",
    "length_bias.annotators_prefer_longer": "longer trajectory preferred by annotators",
    "position_bias.accuracy_where_left_was_chosen": "ranked correctly where the left one was chosen",
    "position_bias.accuracy_where_right_was_chosen": "ranked correctly where the right one was chosen",
    "step_accuracy": "held-out steps judged correctly",
}


def report_rows(report: Mapping[str, Any]) -> list[Figure]:
    """The run's figures, before and after, most important first."""
    return list(_rows(report))


class CalibrationPoint(NamedTuple):
    """The accuracy of the model at about this confidence."""

    confidence: float
    accuracy: float
    pairs: int


def calibration_of(report: Mapping[str, Any]) -> list[CalibrationPoint]:
    """A reward model's calibration curve; empty for anything else."""
    bins = (report.get("calibration") or {}).get("bins") or []
    return [CalibrationPoint(point["confidence"], point["accuracy"], point["n"]) for point in bins]


def _held_out_rows(report: Mapping[str, Any]) -> Iterator[Figure]:
    """The held-out metrics of reward models."""
    for path, name in SHARES.items():
        part, _, key = path.rpartition(".")
        if (share := (report.get(part, {}) if part else report).get(key) or {}).get("n"):
            yield Figure(name, "", _share(share))
    error = (report.get("calibration") or {}).get("ece")
    if error is not None:
        yield Figure("expected calibration error", "", percent(error))
    f1 = (report.get("first_error") or {}).get("f1")
    if f1 is not None:
        yield Figure("first error found, F1", "", figure(f1))


def _share(share: Mapping[str, Any]) -> str:
    return f"{percent(share['value'])} ({percent(share['low'])} to {percent(share['high'])}) of {share['n']:,}"


def _rows(report: Mapping[str, Any]) -> Iterator[Figure]:
    validation = report.get("validation") or {}
    before, after = validation.get("before") or {}, validation.get("after") or {}
    for key, name in NAMES.items():
        if key in after:
            yield Figure(name, figure(before.get(key)), figure(after[key]))
    yield from _held_out_rows(report)
    loss = report.get("loss") or {}
    if "last" in loss:
        yield Figure("training loss", figure(loss.get("first")), figure(loss["last"]))
    if rows := (report.get("rows") or {}).get("train"):
        yield Figure("training rows used", "", f"{rows:,}")
    if "seconds" in report:
        yield Figure("time", "", duration(report["seconds"]))
    if "peak_memory_mb" in report:
        yield Figure("peak memory", "", f"{report['peak_memory_mb']:,.0f} MB")
