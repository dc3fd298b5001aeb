"""How far people agree, corrected for chance. Pure; each figure says on how much it rests, or why it is undefined.

Items are kept as patterns: how many people gave each value, and how many items look like that. There are few patterns
however many items, so resampling 100,000 items a thousand times is one small matrix product.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

STRENGTHS = range(-3, 4)
SIDES = range(-1, 2)
RESAMPLES = 1000
FEWEST_FOR_INTERVAL = 10
"""With fewer items a bootstrap interval only looks like one."""

Level = Literal["nominal", "ordinal", "interval"]
Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""From how often each pattern occurs, (B, P), to B values of the figure; nan where it is undefined."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % bootstrap interval over items, or why it is undefined."""

    value: float | None
    items: int
    """Items with two judgements or more: those that the figure rests on."""
    judgements: int
    """Theirs."""
    undefined_because: str = ""
    low: float | None = None
    high: float | None = None
    least: float = -1.0
    """The smallest value that the figure can take; the largest is 1."""


@dataclass(frozen=True)
class Agreement:
    """Of judgements of the same items."""

    raw: Estimate
    """The chance that two judgements of an item, drawn at random, prefer the same run or neither. 0 to 1."""
    nominal: Estimate
    """Krippendorff's alpha over three outcomes: run a, neither, run b. 1 is agreement, 0 is what chance gives."""
    ordinal: Estimate
    """Krippendorff's alpha over the seven grades in their order: nearly the same grade is nearly agreement."""
    interval: Estimate
    """The same with grades as numbers: from "slightly" to "clearly" is as far as from "clearly" to "much"."""
    fleiss: Estimate
    """Fleiss' kappa over the three outcomes, among the items that the commonest number of people judged."""


def agreement(items: Iterable[Sequence[int]]) -> Agreement:
    """From the strengths (−3 … +3, in favour of run a) that different people gave each item. "Both bad" is strength 0."""
    grades = Patterns.of(items, STRENGTHS)
    sides = grades.merged(lambda strength: (strength > 0) - (strength < 0), SIDES)
    return Agreement(
        raw=raw(sides),
        nominal=alpha(sides, "nominal"),
        ordinal=alpha(grades, "ordinal"),
        interval=alpha(grades, "interval"),
        fleiss=fleiss(sides),
    )


@dataclass(frozen=True)
class Patterns:
    """Judgements by item, without saying who gave which. Items with a single judgement say nothing and are left out."""

    counts: Floats
    """(P, K): in this pattern, how many people gave this value."""
    times: Floats
    """(P,): how many items have this pattern."""
    values: Sequence[int]
    """The K values, in their order."""

    @classmethod
    def of(cls, items: Iterable[Sequence[int]], values: Sequence[int]) -> "Patterns":
        place = {value: k for k, value in enumerate(values)}
        found: Counter[tuple[int, ...]] = Counter()
        for given in items:
            if len(given) > 1:
                found[tuple(sorted(place[value] for value in given))] += 1
        counts = np.zeros((len(found), len(values)))
        for row, pattern in enumerate(found):
            for k in pattern:
                counts[row, k] += 1
        return cls(counts, np.array(list(found.values()), dtype=np.float64), values)

    def merged(self, into: Callable[[int], int], values: Sequence[int]) -> "Patterns":
        """The same judgements on a coarser scale."""
        counts = np.zeros((len(self.counts), len(values)))
        for k, value in enumerate(self.values):
            counts[:, values.index(into(value))] += self.counts[:, k]
        return Patterns(counts, self.times, values)

    def judged_by(self, people: int) -> "Patterns":
        """Only the items that exactly so many people judged."""
        chosen = self.counts.sum(axis=1) == people
        return Patterns(self.counts[chosen], self.times[chosen], self.values)

    @property
    def items(self) -> int:
        return int(self.times.sum())

    @property
    def judgements(self) -> int:
        return int(self.times @ self.counts.sum(axis=1))

    @property
    def undefined_because(self) -> str:
        """Why no figure can be given at all."""
        return "" if self.items else "no item has two judgements yet"

    @property
    def chance_undefined_because(self) -> str:
        """Why no figure can be corrected for chance."""
        if self.items and np.count_nonzero(self.counts.sum(axis=0)) == 1:
            return "every judgement is the same, so chance would agree as well"
        return self.undefined_because


# Figures -------------------------------------------------------------------------------------------------------------


def raw(patterns: Patterns) -> Estimate:
    """The share of agreeing pairs of judgements, averaged over items: each weighs the same however many judged it."""
    if patterns.undefined_because:
        return Estimate(None, 0, 0, patterns.undefined_because, least=0.0)
    same = _same(patterns.counts)
    found = estimate(lambda often: often @ same / often.sum(axis=1), patterns.times, judgements=patterns.judgements)
    return replace(found, least=0.0)


def alpha(patterns: Patterns, level: Level) -> Estimate:
    """Krippendorff's alpha (Content Analysis, 4th ed., 2019, chapter 12): 1 − observed / expected disagreement.

    Takes any number of people an item. Nominal: two values differ or they do not; ordinal: by how many judgements lie between
    them; interval: by the square of their distance.
    """
    if patterns.chance_undefined_because:
        return Estimate(None, patterns.items, patterns.judgements, patterns.chance_undefined_because)
    k = len(patterns.values)
    people = patterns.counts.sum(axis=1)
    pairs = patterns.counts[:, :, None] * (
        patterns.counts[:, None, :] - np.eye(k)
    )  # (P, K, K): ordered pairs of judgements
    coincidences = pairs / (people - 1)[:, None, None]

    def statistic(often: Floats) -> Floats:
        totals = often @ patterns.counts  # (B, K)
        distance = _distance(level, totals, patterns.values)
        observed = np.einsum("bp,pij,bij->b", often, coincidences, distance, optimize=True)
        expected = np.einsum("bi,bj,bij->b", totals, totals, distance)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = 1 - (totals.sum(axis=1) - 1) * observed / expected
        return found

    return estimate(statistic, patterns.times, judgements=patterns.judgements)


def fleiss(patterns: Patterns) -> Estimate:
    """Fleiss' kappa (Psychological Bulletin 76, 1971). It needs one number of judgements an item; the commonest is taken."""
    if patterns.chance_undefined_because:
        return Estimate(None, patterns.items, patterns.judgements, patterns.chance_undefined_because)
    people: Counter[int] = Counter()
    for n, times in zip(patterns.counts.sum(axis=1), patterns.times, strict=True):
        people[int(n)] += int(times)
    chosen = patterns.judged_by(max(people, key=lambda n: (people[n], n)))
    if chosen.chance_undefined_because:
        return Estimate(None, chosen.items, chosen.judgements, chosen.chance_undefined_because)
    same = _same(chosen.counts)

    def statistic(often: Floats) -> Floats:
        totals = often @ chosen.counts
        chance = ((totals / totals.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return corrected(often @ same / often.sum(axis=1), chance)

    return estimate(statistic, chosen.times, judgements=chosen.judgements)


def _same(counts: Floats) -> Floats:
    """(P,): the share of a pattern's pairs of judgements that agree."""
    people = counts.sum(axis=1)
    pairs: Floats = people * (people - 1)
    share: Floats = (counts * (counts - 1)).sum(axis=1) / pairs
    return share


def _distance(level: Level, totals: Floats, values: Sequence[int]) -> Floats:
    """(B, K, K) squared distances between values; ordinal ones depend on how often each value was given."""
    k = len(values)
    if level == "ordinal":
        upto = np.cumsum(totals, axis=1)  # the judgements from the lowest value up to this one
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
    """Agreement beyond chance, as a share of what is possible beyond it; nan where chance alone agrees always."""
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa: Floats = np.where(chance < 1, (observed - chance) / (1 - chance), np.nan)
    return kappa


# Intervals -----------------------------------------------------------------------------------------------------------


def estimate(statistic: Statistic, times: Floats, *, judgements: int) -> Estimate:
    """The figure and its 95 % percentile bootstrap interval over items (Efron and Tibshirani, 1993, chapter 13).

    `times` (P,) says how many items have each pattern. The same data give the same interval: the seed is fixed.
    """
    items = int(times.sum())
    value = float(statistic(times[None])[0])
    if np.isnan(value):
        return Estimate(None, items, judgements, "every judgement is the same, so chance would agree as well")
    found = Estimate(value, items, judgements)
    if items < FEWEST_FOR_INTERVAL:
        return found
    drawn = np.random.default_rng(0).multinomial(items, times / items, size=RESAMPLES).astype(np.float64)
    values = statistic(drawn)
    low, high = np.nanquantile(values, [0.025, 0.975])
    return replace(found, low=float(low), high=float(high))


def to_json(found: Estimate) -> dict[str, Any]:
    """For storing; rounded to what can mean anything."""
    rounded = {name: None if (v := getattr(found, name)) is None else round(v, 4) for name in ("value", "low", "high")}
    return {
        **rounded,
        "items": found.items,
        "judgements": found.judgements,
        "undefined_because": found.undefined_because,
    }
