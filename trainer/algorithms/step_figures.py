"""How well turns are judged: by turn, and by finding the first error. Pure."""

from collections.abc import Sequence
from typing import Any

import torch

from trainer.statistics import Proportion, proportion

NAMES = ("bad", "neutral", "good")


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
    none was. A turn looks bad when that is its likeliest class.
    """
    found = [next((turn for turn, each in enumerate(run) if int(each.argmax()) == 0), -1) for run in chances]
    judged = [(guess, error) for guess, error in zip(found, errors, strict=True) if error is not None]
    with_error = share([guess == error for guess, error in judged if error >= 0])
    without = share([guess == error for guess, error in judged if error < 0])
    both = with_error.value + without.value
    return {
        "f1": round(2 * with_error.value * without.value / both, 4) if both and with_error.n and without.n else None,
        "with_error": with_error._asdict(),
        "without_error": without._asdict(),
    }


def share(hits: Sequence[bool]) -> Proportion:
    return proportion(sum(hits), len(hits))
