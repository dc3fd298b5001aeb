"""Agreement between two annotators: Cohen's kappa. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from apps.annotation.quality.agreement import Estimate, Floats, corrected, estimate

Weighting = Literal["none", "linear", "quadratic"]
"""The weight of a disagreement: constant, by distance, or by squared distance."""


def cohen(pairs: Iterable[tuple[int, int]], values: Sequence[int], weighting: Weighting = "none") -> Estimate:
    """Cohen's kappa (1960), or weighted kappa (1968), of two annotators over the items that both judged, one pair of values per item."""
    index_of = {value: k for k, value in enumerate(values)}
    table = np.zeros((len(values), len(values)))
    for one, other in pairs:
        table[index_of[one], index_of[other]] += 1
    return kappa_of_table(table, disagreement(len(values), weighting))


def disagreement(k: int, weighting: Weighting) -> Floats:
    """(K, K): the weight of the disagreement between values i and j; 0 on the diagonal."""
    apart = np.abs(np.arange(k)[:, None] - np.arange(k))
    power = {"none": 0.0, "linear": 1.0, "quadratic": 2.0}[weighting]
    weights: Floats = np.where(apart > 0, apart.astype(np.float64) ** power, 0.0)
    return weights


def kappa_of_table(table: Floats, weights: Floats) -> Estimate:
    """Kappa from the (K, K) counts of value pairs (i, j) and the weights of disagreements."""
    items = int(table.sum())
    if not items:
        return Estimate(None, 0, 0, "they have no judged items in common")
    k = len(table)
    worst = weights.max()

    def statistic(often: Floats) -> Floats:
        shares = (often / often.sum(axis=1, keepdims=True)).reshape(-1, k, k)
        chance = shares.sum(axis=2)[:, :, None] * shares.sum(axis=1)[:, None, :]
        return corrected(
            1 - (shares * weights).sum(axis=(1, 2)) / worst, 1 - (chance * weights).sum(axis=(1, 2)) / worst
        )

    return estimate(statistic, table.reshape(-1), judgments=2 * items)
