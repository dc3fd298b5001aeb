"""How well turns are judged: by turn, and by finding the first error. Pure."""

from collections.abc import Sequence
from typing import Any

import torch

from trainer.statistics import Proportion, proportion

NAMES = ("bad", "neutral", "good")
THRESHOLDS = [step / 50 for step in range(1, 50)]
"""Tried for the probability from which a turn looks bad."""


def step_accuracy(chances: Sequence[torch.Tensor], labels: Sequence[Sequence[float | None]]) -> dict[str, Any]:
    """The share of judged turns whose likeliest class is the label's nearest, in all and by class.

    chances: for each run (turns, 3), the probabilities of bad, neutral and good.
    """
    right: dict[str, int] = dict.fromkeys(NAMES, 0)
    total: dict[str, int] = dict.fromkeys(NAMES, 0)
    for run, judged in zip(chances, labels, strict=True):
        for chance, label in zip(run, judged, strict=True):
            if label is not None:
                name = NAMES[round(label) + 1]
                total[name] += 1
                right[name] += NAMES[int(chance.argmax())] == name
    return {
        **proportion(sum(right.values()), sum(total.values()))._asdict(),
        "by_label": {name: proportion(right[name], total[name])._asdict() for name in NAMES if total[name]},
    }


def first_error(chances: Sequence[torch.Tensor], errors: Sequence[int | None]) -> dict[str, Any]:
    """Whether the first turn that looks bad is the one that is: F1 of ProcessBench (Zheng et al., 2024, arXiv 2412.06559, section 4.1).

    F1 is the harmonic mean of two shares: of runs with an error, those where that very turn was found; of runs without, those where
    none was. How likely bad a turn must be to look bad is chosen, as there, on runs other than those that are measured: each half of
    them takes the threshold that does best on the other half.

    chances: for each run (turns, 3), the probabilities of bad, neutral and good. errors: the turn, -1 for none, None where unknown.
    """
    runs = [(run[:, 0].tolist(), error) for run, error in zip(chances, errors, strict=True) if error is not None]
    halves = runs[: len(runs) // 2], runs[len(runs) // 2 :]
    thresholds = [best_threshold(other) for other in reversed(halves)]
    hits = [
        (error, first_above(bad, threshold) == error)
        for half, threshold in zip(halves, thresholds, strict=True)
        for bad, error in half
    ]
    with_error = share([hit for error, hit in hits if error >= 0])
    without = share([hit for error, hit in hits if error < 0])
    known = with_error.n and without.n
    return {
        "f1": round(harmonic(with_error.value, without.value), 4) if known else None,
        "thresholds": thresholds,
        "with_error": with_error._asdict(),
        "without_error": without._asdict(),
    }


def best_threshold(runs: Sequence[tuple[Sequence[float], int]]) -> float:
    """The probability of bad with the best F1; of several, the one nearest a half. A half where one kind of run is missing.

    runs: the probability of bad at each turn, and the turn of the first error or -1.
    """
    with_error, without = [each for each in runs if each[1] >= 0], [each for each in runs if each[1] < 0]
    if not (with_error and without):
        return 0.5

    def merit(threshold: float) -> tuple[float, float]:
        found, left = (
            sum(first_above(bad, threshold) == error for bad, error in kind) / len(kind)
            for kind in (with_error, without)
        )
        return harmonic(found, left), -abs(threshold - 0.5)

    return max(THRESHOLDS, key=merit)


def first_above(bad: Sequence[float], threshold: float) -> int:
    """The first turn that is at least so likely bad, or -1."""
    return next((turn for turn, chance in enumerate(bad) if chance >= threshold), -1)


def harmonic(a: float, b: float) -> float:
    """The harmonic mean, 0 where both are 0."""
    return 2 * a * b / (a + b) if a + b else 0.0


def share(hits: Sequence[bool]) -> Proportion:
    return proportion(sum(hits), len(hits))
