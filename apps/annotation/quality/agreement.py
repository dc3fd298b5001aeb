"""Inter-annotator agreement, corrected for chance. Pure; each figure says how much data it's based on, or why it's undefined.

The unit of comparison is an item or, if its steps are labeled, one of its steps. Units are stored as patterns: how many annotators
gave each value, and how many units have that pattern. There are few patterns however many units, so resampling 100,000 items a
thousand times is one small matrix product.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

STRENGTHS = range(-3, 4)
SIDES = range(-1, 2)
RESAMPLES = 1000
AT_ONCE = 50
"""Resamples per chunk: those of 100,000 trajectories with their steps take 40 MB."""
FEWEST_FOR_INTERVAL = 10
"""Minimum number of items for a bootstrap interval to be meaningful."""

Level = Literal["nominal", "ordinal", "interval"]
Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""Maps pattern frequencies, (B, P), to B values of the figure; nan where it's undefined."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95% bootstrap interval over items, or why it's undefined."""

    value: float | None
    items: int
    """Units with two or more judgments, which the figure is based on."""
    judgments: int
    """Judgments of those units."""
    undefined_because: str = ""
    low: float | None = None
    high: float | None = None
    least: float = -1.0
    """The minimum of the figure; the maximum is 1."""


@dataclass(frozen=True)
class Agreement:
    """Agreement figures for judgments of the same items."""

    raw: Estimate
    """The probability that two random judgments of an item prefer the same trajectory or both neither. 0 to 1."""
    nominal: Estimate
    """Krippendorff's alpha over three outcomes: trajectory a, neither, trajectory b. 1 is perfect agreement, 0 is chance level."""
    ordinal: Estimate
    """Krippendorff's alpha over the seven grades as an ordinal scale, where close grades count as partial agreement."""
    interval: Estimate
    """The same as an interval scale: from "slightly" to "clearly" is as far as from "clearly" to "much"."""
    fleiss: Estimate
    """Fleiss' kappa over the three outcomes, among the items with the most frequent number of judgments."""


def agreement(items: Iterable[Sequence[int]]) -> Agreement:
    """Agreement from each item's strengths (−3 … +3, in favor of trajectory a) by different annotators. "Both bad" is strength 0."""
    grades = Patterns.of(items, STRENGTHS)
    sides = grades.merged(lambda strength: (strength > 0) - (strength < 0), SIDES)
    return Agreement(
        raw=raw(sides),
        nominal=alpha(sides, "nominal"),
        ordinal=alpha(grades, "ordinal"),
        interval=alpha(grades, "interval"),
        fleiss=fleiss(sides),
    )


class Clusters(NamedTuple):
    """Items of several units each, which are resampled together, since the steps of one trajectory are correlated."""

    patterns: Floats
    """(C, P): the number of units with this pattern in an item of this composition."""
    times: Floats
    """(C,): the number of items with this composition."""


@dataclass(frozen=True)
class Patterns:
    """Judgments by unit, without their annotators. Units with a single judgment are left out."""

    counts: Floats
    """(P, K): the number of annotators who gave this value in this pattern."""
    times: Floats
    """(P,): the number of units with this pattern."""
    values: Sequence[int]
    """The K values, in order."""
    clusters: Clusters | None = None
    """None if every item is one unit."""

    @classmethod
    def of(cls, items: Iterable[Sequence[int]], values: Sequence[int]) -> "Patterns":
        """Build patterns from the values given to each item."""
        return cls.of_parts(([values_of_item] for values_of_item in items), values)

    @classmethod
    def of_parts(cls, items: Iterable[Iterable[Sequence[int]]], values: Sequence[int]) -> "Patterns":
        """Build patterns and clusters from the values given to each part of each item."""
        index_of = {value: k for k, value in enumerate(values)}
        rows: dict[tuple[int, ...], int] = {}
        makeups: Counter[tuple[int, ...]] = Counter()
        for parts in items:
            compared = [
                tuple(sorted(index_of[value] for value in values_of_part))
                for values_of_part in parts
                if len(values_of_part) > 1
            ]
            if compared:
                makeups[tuple(sorted(rows.setdefault(pattern, len(rows)) for pattern in compared))] += 1
        counts, times = np.zeros((len(rows), len(values))), np.zeros(len(rows))
        for pattern, row in rows.items():
            np.add.at(counts[row], list(pattern), 1)
        for makeup, how_often in makeups.items():
            np.add.at(times, list(makeup), how_often)
        return cls(counts, times, values, clusters_of(makeups, len(rows)))

    def merged(self, into: Callable[[int], int], values: Sequence[int]) -> "Patterns":
        """The same judgments on a coarser scale."""
        counts = np.zeros((len(self.counts), len(values)))
        for k, value in enumerate(self.values):
            counts[:, values.index(into(value))] += self.counts[:, k]
        return Patterns(counts, self.times, values, self.clusters)

    def judged_by(self, people: int) -> "Patterns":
        """Only the units judged by exactly this many people."""
        chosen = self.counts.sum(axis=1) == people
        clusters = self.clusters
        if clusters:
            having = clusters.patterns[:, chosen].any(axis=1)
            clusters = Clusters(clusters.patterns[having][:, chosen], clusters.times[having])
        return Patterns(self.counts[chosen], self.times[chosen], self.values, clusters)

    @property
    def items(self) -> int:
        return int(self.times.sum())

    @property
    def judgments(self) -> int:
        return int(self.times @ self.counts.sum(axis=1))

    @property
    def undefined_because(self) -> str:
        """Why no figure is defined."""
        return "" if self.items else "no item has two judgments yet"

    @property
    def chance_undefined_because(self) -> str:
        """Why no chance-corrected figure is defined."""
        if self.items and np.count_nonzero(self.counts.sum(axis=0)) == 1:
            return "every judgment is the same, so chance would agree as well"
        return self.undefined_because


def clusters_of(makeups: Counter[tuple[int, ...]], patterns: int) -> Clusters | None:
    """The clusters of items, given how many have this composition of units by their pattern; None if every item is one unit."""
    if all(len(makeup) == 1 for makeup in makeups):
        return None
    counts = np.zeros((len(makeups), patterns))
    for row, makeup in zip(counts, makeups, strict=True):
        np.add.at(row, list(makeup), 1)
    return Clusters(counts, np.array(list(makeups.values()), dtype=np.float64))


def raw(patterns: Patterns) -> Estimate:
    """The share of agreeing pairs of judgments, averaged over items with equal weight, however many judged each."""
    if patterns.undefined_because:
        return Estimate(None, 0, 0, patterns.undefined_because, least=0.0)
    same = _same(patterns.counts)
    estimate = _estimate(lambda often: often @ same / often.sum(axis=1), patterns)
    return replace(estimate, least=0.0)


def alpha(patterns: Patterns, level: Level) -> Estimate:
    """Krippendorff's alpha (Content Analysis, 4th ed., 2019, chapter 12): 1 − observed / expected disagreement.

    Works with any number of judgments per item. Distance of two values: nominal, 0 or 1; ordinal, the number of judgments between
    them; interval, the square of their difference.
    """
    if patterns.chance_undefined_because:
        return Estimate(None, patterns.items, patterns.judgments, patterns.chance_undefined_because)
    k = len(patterns.values)
    people = patterns.counts.sum(axis=1)
    pairs = patterns.counts[:, :, None] * (
        patterns.counts[:, None, :] - np.eye(k)
    )  # (P, K, K): ordered pairs of judgments
    coincidences = pairs / (people - 1)[:, None, None]

    def statistic(often: Floats) -> Floats:
        totals = often @ patterns.counts  # (B, K)
        distance = _distance(level, totals, patterns.values)
        observed = np.einsum("bp,pij,bij->b", often, coincidences, distance, optimize=True)
        expected = np.einsum("bi,bj,bij->b", totals, totals, distance)
        with np.errstate(invalid="ignore", divide="ignore"):
            values: Floats = 1 - (totals.sum(axis=1) - 1) * observed / expected
        return values

    return _estimate(statistic, patterns)


def fleiss(patterns: Patterns) -> Estimate:
    """Fleiss' kappa (Psychological Bulletin 76, 1971). It requires a constant number of judgments per item; the most frequent one is used."""
    if patterns.chance_undefined_because:
        return Estimate(None, patterns.items, patterns.judgments, patterns.chance_undefined_because)
    people: Counter[int] = Counter()
    for n, times in zip(patterns.counts.sum(axis=1), patterns.times, strict=True):
        people[int(n)] += int(times)
    chosen = patterns.judged_by(max(people, key=lambda n: (people[n], n)))
    if chosen.chance_undefined_because:
        return Estimate(None, chosen.items, chosen.judgments, chosen.chance_undefined_because)
    same = _same(chosen.counts)

    def statistic(often: Floats) -> Floats:
        totals = often @ chosen.counts
        chance = ((totals / totals.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return corrected(often @ same / often.sum(axis=1), chance)

    return _estimate(statistic, chosen)


def _same(counts: Floats) -> Floats:
    """(P,): the share of a pattern's pairs of judgments that agree."""
    people = counts.sum(axis=1)
    pairs: Floats = people * (people - 1)
    share: Floats = (counts * (counts - 1)).sum(axis=1) / pairs
    return share


def _distance(level: Level, totals: Floats, values: Sequence[int]) -> Floats:
    """(B, K, K) squared distances between values; ordinal ones depend on the frequency of each value."""
    k = len(values)
    if level == "ordinal":
        upto = np.cumsum(totals, axis=1)  # judgments up to and including this value
        between = np.abs(upto[:, :, None] - upto[:, None, :])
        steps = between + np.where(np.arange(k)[:, None] > np.arange(k), totals[:, None, :], totals[:, :, None])
        ordinal: Floats = (steps - (totals[:, :, None] + totals[:, None, :]) / 2) ** 2
        ordinal[:, np.arange(k), np.arange(k)] = 0.0
        return ordinal
    placed = np.asarray(values, dtype=np.float64)
    apart = placed[:, None] - placed
    fixed: Floats = (apart != 0).astype(np.float64) if level == "nominal" else apart * apart
    return np.broadcast_to(fixed, (len(totals), k, k))


def corrected(observed: Floats, chance: Floats) -> Floats:
    """Agreement beyond chance, as a share of the possible agreement beyond chance; nan if chance agreement is 1."""
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa: Floats = np.where(chance < 1, (observed - chance) / (1 - chance), np.nan)
    return kappa


def _estimate(statistic: Statistic, patterns: Patterns) -> Estimate:
    return estimate(statistic, patterns.times, judgments=patterns.judgments, clusters=patterns.clusters)


def estimate(statistic: Statistic, times: Floats, *, judgments: int, clusters: Clusters | None = None) -> Estimate:
    """The figure and its 95% percentile bootstrap interval over items (Efron and Tibshirani, 1993, chapter 13).

    `times` (P,) is the number of units with each pattern. Deterministic: the seed is fixed.
    """
    items = int(times.sum())
    value = float(statistic(times[None])[0])
    if np.isnan(value):
        return Estimate(None, items, judgments, "every judgment is the same, so chance would agree as well")
    result = Estimate(value, items, judgments)
    drawn_from = clusters.times if clusters else times
    if drawn_from.sum() < FEWEST_FOR_INTERVAL:
        return result
    values = statistic(np.concatenate(list(_resampled(drawn_from, clusters))))
    low, high = np.nanquantile(values, [0.025, 0.975])
    return replace(result, low=float(low), high=float(high))


def _resampled(times: Floats, clusters: Clusters | None) -> Iterator[Floats]:
    """(B, P), in chunks: the pattern frequencies of bootstrap resamples."""
    rng, items = np.random.default_rng(0), int(times.sum())
    for _ in range(RESAMPLES // AT_ONCE):
        drawn = rng.multinomial(items, times / items, size=AT_ONCE).astype(np.float64)
        yield drawn @ clusters.patterns if clusters else drawn


def to_json(estimate: Estimate) -> dict[str, Any]:
    """For storage, rounded to meaningful digits."""
    rounded = {
        name: None if (v := getattr(estimate, name)) is None else round(v, 4) for name in ("value", "low", "high")
    }
    return {
        **rounded,
        "items": estimate.items,
        "judgments": estimate.judgments,
        "undefined_because": estimate.undefined_because,
    }
