"""How well a reward model ranks held-out pairs: accuracy, calibration, and biases. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isclose
from statistics import fmean
from typing import Any

from trainer.statistics import proportion

BINS = 10


@dataclass(frozen=True)
class Ranked:
    """One held-out pair and the rewards of its sides."""

    chosen: float
    rejected: float
    chosen_length: int
    """Tokens that the policy wrote."""
    rejected_length: int
    soft_label: float = 1.0
    """Probability that the chosen side is better."""
    shown_left: float | None = None
    """Share of its judgments in which the chosen side was shown on the left."""

    @property
    def right(self) -> bool:
        """Whether the ranking is correct; equal rewards count as wrong."""
        return self.chosen > self.rejected

    @property
    def chance(self) -> float:
        """The model's probability that the chosen side is preferred."""
        difference = max(-500.0, min(500.0, self.chosen - self.rejected))
        return 1 / (1 + exp(-difference))


def pair_figures(pairs: Sequence[Ranked]) -> dict[str, Any]:
    """The report's figures on held-out pairs, without ties."""
    return {
        "held_out_accuracy": accuracy(pairs),
        "calibration": calibration(pairs),
        "length_bias": length_bias(pairs),
        "position_bias": position_bias(pairs),
    }


def accuracy(pairs: Sequence[Ranked]) -> dict[str, float]:
    """The share of pairs whose chosen side has the higher reward, with its 95 % interval."""
    return proportion(sum(pair.right for pair in pairs), len(pairs))._asdict()


def calibration(pairs: Sequence[Ranked], bins: int = BINS) -> dict[str, Any]:
    """The expected calibration error (Guo et al., 2017, arXiv 1706.04599) and its curve.

    The model's confidence is the probability it gives the side it prefers, 0.5 … 1; it should be right that often. With soft
    labels, correctness is fractional.
    """
    confidences = []
    for pair in pairs:
        confidence = max(pair.chance, 1 - pair.chance)
        confidences.append((confidence, pair.soft_label if pair.chance >= 0.5 else 1 - pair.soft_label))
    curve = []
    for number in range(bins):
        low, high = 0.5 + 0.5 * number / bins, 0.5 + 0.5 * (number + 1) / bins
        inside = [pair for pair in confidences if low <= pair[0] < high or (number == bins - 1 and pair[0] == high)]
        if inside:
            curve.append(
                {
                    "low": round(low, 4),
                    "high": round(high, 4),
                    "n": len(inside),
                    "confidence": round(fmean(confidence for confidence, _ in inside), 4),
                    "accuracy": round(fmean(right for _, right in inside), 4),
                }
            )
    error = sum(point["n"] * abs(point["accuracy"] - point["confidence"]) for point in curve)
    return {"ece": round(error / len(pairs), 4) if pairs else None, "bins": curve}


def length_bias(pairs: Sequence[Ranked]) -> dict[str, Any]:
    """Whether the model mistakes length for quality: how often it and the annotators prefer the longer side, and its
    accuracy where the longer side is better and where it isn't. Pairs of equal length are left out."""
    uneven = [pair for pair in pairs if pair.chosen_length != pair.rejected_length]
    longer = [pair for pair in uneven if pair.chosen_length > pair.rejected_length]
    shorter = [pair for pair in uneven if pair.chosen_length < pair.rejected_length]
    prefers_longer = sum(pair.right for pair in longer) + sum(not pair.right for pair in shorter)
    return {
        "correlation": correlation(
            [length for pair in pairs for length in (pair.chosen_length, pair.rejected_length)],
            [reward for pair in pairs for reward in (pair.chosen, pair.rejected)],
        ),
        "model_prefers_longer": proportion(prefers_longer, len(uneven))._asdict(),
        "annotators_prefer_longer": proportion(len(longer), len(uneven))._asdict(),
        "accuracy_where_longer_is_better": accuracy(longer),
        "accuracy_where_shorter_is_better": accuracy(shorter),
    }


def position_bias(pairs: Sequence[Ranked]) -> dict[str, Any]:
    """The model sees no position, but its labels may be biased toward one. If these two differ much, position influenced some labels."""
    placed = [(pair, pair.shown_left) for pair in pairs if pair.shown_left is not None]
    chosen_left = [pair for pair, shown in placed if shown is not None and shown > 0.5]
    right = [pair for pair, shown in placed if shown is not None and shown < 0.5]
    return {
        "chosen_was_left": proportion(len(chosen_left), len(chosen_left) + len(right))._asdict(),
        "accuracy_where_left_was_chosen": accuracy(chosen_left),
        "accuracy_where_right_was_chosen": accuracy(right),
    }


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's correlation; None if either is constant."""
    if len(xs) < 2:
        return None
    x_mean, y_mean = fmean(xs), fmean(ys)
    covariance = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    spread = (sum((x - x_mean) ** 2 for x in xs) * sum((y - y_mean) ** 2 for y in ys)) ** 0.5
    return None if isclose(spread, 0, abs_tol=1e-12) else round(covariance / spread, 4)
