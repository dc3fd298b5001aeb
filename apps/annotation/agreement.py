"""How far people agree. Pure; each figure says on how many items it rests, or why there is none."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import krippendorff
import numpy as np

STRENGTHS = range(-3, 4)


@dataclass(frozen=True)
class Estimate:
    """A figure, or why it is undefined. `items`: those with two judgements or more; `judgements`: theirs."""

    value: float | None
    items: int
    judgements: int
    undefined_because: str = ""


@dataclass(frozen=True)
class Agreement:
    """Of judgements of the same items."""

    raw: Estimate
    """The chance that two judgements of an item, drawn at random, prefer the same run or neither. 0 to 1."""
    nominal: Estimate
    """Krippendorff's alpha over three outcomes: run a, neither, run b. 1 is agreement, 0 is what chance gives."""
    ordinal: Estimate
    """Krippendorff's alpha over the seven grades in their order: nearly the same grade is nearly agreement."""


def agreement(items: Iterable[Sequence[int]]) -> Agreement:
    """From the strengths (−3 … +3, in favour of run a) that different people gave each item. "Both bad" is strength 0.

    Krippendorff, Content Analysis (2004), chapter 11; items with a single judgement say nothing and are left out.
    """
    rated = [strengths for strengths in items if len(strengths) > 1]
    judgements = sum(map(len, rated))
    if not rated:
        nothing = Estimate(None, 0, 0, "no item has two judgements yet")
        return Agreement(nothing, nothing, nothing)
    sides = [[_sign(strength) for strength in strengths] for strengths in rated]
    return Agreement(
        raw=Estimate(_raw(sides), len(rated), judgements),
        nominal=_alpha(sides, range(-1, 2), "nominal"),
        ordinal=_alpha(rated, STRENGTHS, "ordinal"),
    )


def _sign(strength: int) -> int:
    return (strength > 0) - (strength < 0)


def _raw(items: Sequence[Sequence[int]]) -> float:
    """Averaged over items, each weighing the same however many judged it."""
    return sum(_same_pairs(votes) / _pairs(len(votes)) for votes in items) / len(items)


def _same_pairs(votes: Sequence[int]) -> int:
    return sum(_pairs(count) for count in Counter(votes).values())


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def _alpha(items: Sequence[Sequence[int]], domain: range, level: Literal["nominal", "ordinal"]) -> Estimate:
    judgements = sum(map(len, items))
    if len({vote for votes in items for vote in votes}) == 1:
        # Chance alone would agree always: alpha divides nothing by nothing.
        return Estimate(None, len(items), judgements, "every judgement is the same, so chance would agree as well")
    counts = np.zeros((len(items), len(domain)), dtype=np.int64)  # (items, values): how many gave which value
    for row, votes in enumerate(items):
        for vote in votes:
            counts[row, vote - domain.start] += 1
    value = krippendorff.alpha(value_counts=counts, value_domain=list(domain), level_of_measurement=level)
    return Estimate(float(value), len(items), judgements)
