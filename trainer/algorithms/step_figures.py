"""Evaluation of a process reward model: per turn, and at finding the first error. Pure."""

from collections.abc import Sequence
from typing import Any

import torch

from trainer.statistics import Proportion, proportion

NAMES = ("bad", "neutral", "good")
THRESHOLDS = [step / 50 for step in range(1, 50)]
"""Candidate thresholds for the probability that a turn is bad."""


def step_accuracy(chances: Sequence[torch.Tensor], labels: Sequence[Sequence[float | None]]) -> dict[str, Any]:
    """The share of judged turns whose most likely class is the one nearest to the label, overall and by class.

    chances: for each trajectory (turns, 3), the probabilities of bad, neutral, and good.
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
    """Whether the first turn predicted bad is the first error: F1 of ProcessBench (Zheng et al., 2024, arXiv 2412.06559, section 4.1).

    F1 is the harmonic mean of the accuracy on trajectories with an error (that turn was found) and on those without (none was
    found). As in ProcessBench, the threshold is chosen on trajectories other than those measured: each half uses the
    best threshold of the other half.

    chances: for each trajectory (turns, 3), the probabilities of bad, neutral, and good. errors: the turn, -1 for none, None if unknown.
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
    has_both = with_error.n and without.n
    return {
        "f1": round(harmonic(with_error.value, without.value), 4) if has_both else None,
        "thresholds": thresholds,
        "with_error": with_error._asdict(),
        "without_error": without._asdict(),
    }


def best_threshold(trajectories: Sequence[tuple[Sequence[float], int]]) -> float:
    """The threshold with the best F1, ties going to the one nearest ½; ½ if either kind of trajectory is missing.

    trajectories: the probability of bad at each turn, and the turn of the first error or -1.
    """
    with_error, without_error = (
        [trajectory for trajectory in trajectories if trajectory[1] >= 0],
        [trajectory for trajectory in trajectories if trajectory[1] < 0],
    )
    if not (with_error and without_error):
        return 0.5

    def merit(threshold: float) -> tuple[float, float]:
        on_faulty, on_correct = (
            sum(first_above(bad, threshold) == error for bad, error in kind) / len(kind)
            for kind in (with_error, without_error)
        )
        return harmonic(on_faulty, on_correct), -abs(threshold - 0.5)

    return max(THRESHOLDS, key=merit)


def first_above(bad: Sequence[float], threshold: float) -> int:
    """The first turn with at least this probability of bad, or -1."""
    return next((turn for turn, chance in enumerate(bad) if chance >= threshold), -1)


def harmonic(a: float, b: float) -> float:
    """The harmonic mean, 0 where both are 0."""
    return 2 * a * b / (a + b) if a + b else 0.0


def share(hits: Sequence[bool]) -> Proportion:
    return proportion(sum(hits), len(hits))
