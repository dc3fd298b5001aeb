"""Agreement gathered pair by pair: what is kept is a 3 × 3 table, however many judgements come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any


class Agreement:
    """Observed agreement and Krippendorff's alpha over the outcomes +1 (first run), 0 (neither) and −1 (second run).

    Alpha uses the interval difference, so a tie disagrees with a choice half as far as two opposite choices do (squared: a quarter).
    Source: Krippendorff, Content Analysis (4th ed., 2019), section 12.3.
    """

    def __init__(self) -> None:
        self.pairs = 0
        self.same = 0
        self.compared = 0
        self.coincidences: defaultdict[tuple[int, int], float] = defaultdict(float)

    def add(self, outcomes: Sequence[int]) -> None:
        """Add the outcomes that different annotators gave for one pair; a single one says nothing of agreement."""
        if len(outcomes) < 2:
            return
        self.pairs += 1
        counts = Counter(outcomes)
        for one, n in counts.items():
            for other, m in counts.items():
                # Weighted so that a pair judged by many counts by its judgements, not by their square.
                self.coincidences[one, other] += n * (m - (one == other)) / (len(outcomes) - 1)
            self.same += n * (n - 1) // 2
        self.compared += len(outcomes) * (len(outcomes) - 1) // 2

    @property
    def alpha(self) -> float | None:
        """1 is perfect, 0 is chance; None where every judgement was the same, or none could be compared."""
        totals: defaultdict[int, float] = defaultdict(float)
        for (one, _), weight in self.coincidences.items():
            totals[one] += weight
        n = sum(totals.values())
        expected = _disagreement(((one, other), totals[one] * totals[other]) for one in totals for other in totals)
        if not expected:
            return None
        return 1 - (n - 1) * _disagreement(self.coincidences.items()) / expected

    def to_json(self) -> dict[str, Any]:
        alpha = self.alpha
        return {
            "pairs": self.pairs,
            "observed": round(self.same / self.compared, 4) if self.compared else None,
            "alpha": None if alpha is None else round(alpha, 4),
        }


def _disagreement(weights: Iterable[tuple[tuple[int, int], float]]) -> float:
    return sum(weight * (one - other) ** 2 for (one, other), weight in weights)
