"""Twelve simulated annotators of known skill, some careless, some with a position bias, and the labels from their votes.

The true order of a pair is `annotators.quality`. Not modeled: varying difficulty of pairs, fatigue, and ties.
"""

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from apps.annotation.quality.label_aggregation import Votes, dawid_skene
from bench.learning.pairs import pair
from contract.trajectory import Task, Trajectory

LEFT, RIGHT = 0, 1


class Annotator(NamedTuple):
    """How somebody votes."""

    skill: float
    """Accuracy when actually looking."""
    careless: float = 0.0
    """Share of the pairs answered at random."""
    leaning: float = 0.0
    """Share of the pairs answered with the left side regardless."""

    @property
    def right(self) -> float:
        """Overall accuracy. Random votes and left votes are right half of the time."""
        blind = self.careless + self.leaning
        return (1 - blind) * self.skill + blind / 2

    def vote(self, better: int, chance: random.Random) -> int:
        """The preferred side."""
        draw = chance.random()
        if draw < self.careless:
            return chance.choice((LEFT, RIGHT))
        if draw < self.careless + self.leaning:
            return LEFT
        return better if chance.random() < self.skill else 1 - better


PANEL = (
    *(Annotator(skill) for skill in (0.95, 0.93, 0.90, 0.88, 0.85, 0.82, 0.80, 0.75)),
    Annotator(0.90, careless=0.4),
    Annotator(0.85, careless=0.7),
    Annotator(0.90, leaning=0.4),
    Annotator(0.80, leaning=0.6),
)
"""Accuracies from 95 % to 60 %, 80 % on average."""


class Judged(NamedTuple):
    """A pair and its votes."""

    better: Trajectory
    worse: Trajectory
    better_side: int
    votes: tuple[tuple[int, int], ...]
    """(annotator, side)."""

    def row(self, side: int, weight: float) -> dict[str, Any]:
        """The preference row with `side` as chosen."""
        is_right = side == self.better_side
        chosen, rejected = (self.better, self.worse) if is_right else (self.worse, self.better)
        return {**pair(chosen, rejected), "weight": weight}


def judged(pairs: Sequence[tuple[Trajectory, Trajectory]], *, overlap: int, seed: int) -> list[Judged]:
    """Each pair (the better one first) with the votes of `overlap` random annotators. The first pairs get the same votes however many follow."""
    judged_pairs = []
    for number, (better, worse) in enumerate(pairs):
        chance = random.Random(f"{seed}/{number}")
        side = chance.choice((LEFT, RIGHT))
        annotators = chance.sample(range(len(PANEL)), len(PANEL))[:overlap]
        votes = tuple((annotator, PANEL[annotator].vote(side, chance)) for annotator in annotators)
        judged_pairs.append(Judged(better, worse, side, votes))
    return judged_pairs


def by_majority(pairs: Sequence[Judged]) -> list[tuple[int, float]]:
    """(side, weight) of each pair: the majority, with equal weights. The overlap must be odd."""
    return [(int(2 * sum(side for _, side in pair.votes) > len(pair.votes)), 1.0) for pair in pairs]


def by_dawid_skene(pairs: Sequence[Judged]) -> list[tuple[int, float]]:
    """(side, weight) of each pair: the more likely side by Dawid–Skene, weighted by the margin, as in datasets with that aggregation."""
    votes = [(item, annotator, side) for item, pair in enumerate(pairs) for annotator, side in pair.votes]
    posterior = dawid_skene(Votes.of(votes, items=len(pairs), labels=2)).posterior
    return [(int(right > left), abs(float(right - left))) for left, right in posterior]


def share_right(pairs: Sequence[Judged], labels: Sequence[tuple[int, float]]) -> float:
    """The weighted share of labels for the better side."""
    weights = [(weight, side == pair.better_side) for pair, (side, weight) in zip(pairs, labels, strict=True)]
    return sum(weight for weight, is_right in weights if is_right) / sum(weight for weight, _ in weights)


def main() -> None:
    """Accuracy of the labels by overlap and aggregation: means over 60 panels' votes, in percent."""
    print(f"{'pairs':>5}{'votes':>7}{'majority':>10}{'Dawid-Skene':>13}{'of its weight':>15}")
    nobody = Trajectory(Task("", ""), [])
    for count in (76, 227, 1000):
        for overlap in (1, 3, 5, 7):
            shares = []
            for seed in range(60):
                pairs = judged([(nobody, nobody)] * count, overlap=overlap, seed=seed)
                labels = by_dawid_skene(pairs)
                plain = [(side, 1.0) for side, _ in labels]
                shares.append([share_right(pairs, aggregated) for aggregated in (by_majority(pairs), plain, labels)])
            means = [100 * fmean(column) for column in zip(*shares, strict=True)]
            print(f"{count:>5}{overlap:>7}{means[0]:>10.1f}{means[1]:>13.1f}{means[2]:>15.1f}")


if __name__ == "__main__":
    main()
