"""Agreement between two annotators: Cohen's kappa. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from apps.annotation.quality.agreement import Clusters, Estimate, Floats, clusters_of, corrected, estimate

Weighting = Literal["none", "linear", "quadratic"]
"""The weight of a disagreement: constant, by distance, or by squared distance."""


def cohen(items: Iterable[Iterable[tuple[int, int]]], values: Sequence[int], weighting: Weighting = "none") -> Estimate:
    """Cohen's kappa (1960), or weighted kappa (1968), of two annotators over the items that both judged: a pair of values for each item, or
    for each part of it, such as the steps of a trajectory."""
    index_of = {value: k for k, value in enumerate(values)}
    table = np.zeros((len(values), len(values)))
    makeups: Counter[tuple[int, ...]] = Counter()
    for parts in items:
        places = [index_of[one] * len(values) + index_of[other] for one, other in parts]
        np.add.at(table.reshape(-1), places, 1)
        makeups[tuple(sorted(places))] += 1
    return kappa_of_table(table, disagreement(len(values), weighting), clusters_of(makeups, table.size))


def disagreement(k: int, weighting: Weighting) -> Floats:
    """(K, K): the weight of the disagreement between values i and j; 0 on the diagonal."""
    apart = np.abs(np.arange(k)[:, None] - np.arange(k))
    power = {"none": 0.0, "linear": 1.0, "quadratic": 2.0}[weighting]
    weights: Floats = np.where(apart > 0, apart.astype(np.float64) ** power, 0.0)
    return weights


def kappa_of_table(table: Floats, weights: Floats, clusters: Clusters | None = None) -> Estimate:
    """Kappa from the (K, K) counts of value pairs (i, j) and the weights of disagreements. Clusters are of the flattened table."""
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

    return estimate(statistic, table.reshape(-1), judgments=2 * items, clusters=clusters)
