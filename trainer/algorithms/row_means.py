"""Means over rows of the metrics that TRL's trainers for files log.

TRL averages the values of batches: in an evaluation of nine rows in batches of eight, the last row would count as much as the eight others.
"""

from collections import defaultdict
from typing import Any

LOWEST, HIGHEST = "min_reward", "max_reward"
CHOSEN, REJECTED, MARGIN = "rewards/chosen", "rewards/rejected", "rewards/margins"


class MeansOverRows:
    """Mixin. The trainer calls `count` with every batch."""

    model: Any
    _metrics: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._counts: dict[bool, dict[str, list[int]]] = {True: defaultdict(list), False: defaultdict(list)}
        """Rows of each batch since the last log, for training and evaluation."""
        super().__init__(*args, **kwargs)

    def count(self, rows: int, **others: int) -> None:
        """rows: of this batch. others: how many of them the metrics with such a name are about, which TRL logs only if there are any."""
        for name, number in {"": rows, **others}.items():
            self._counts[self.model.training][name].append(number)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        counts = self._counts[self.model.training]
        metrics: dict[str, list[float]] = self._metrics["train" if self.model.training else "eval"]
        for name, values in [*metrics.items()]:
            if not values:
                del metrics[name]
                continue
            weights = [number for number in counts.get(name.rpartition("/")[2], counts[""]) if number]
            metrics[name] = [combined(name, values, weights)]
        if CHOSEN in metrics and REJECTED in metrics:
            metrics[MARGIN] = [metrics[CHOSEN][0] - metrics[REJECTED][0]]  # KTO's batches may have only one of the two
        counts.clear()
        trl: Any = super()
        trl.log(logs, start_time)


def combined(name: str, values: list[float], weights: list[int]) -> float:
    """One value of several batches. Values that aren't one per batch, such as token counts, are averaged as TRL does."""
    if name == LOWEST:
        return min(values)
    if name == HIGHEST:
        return max(values)
    if len(values) != len(weights):
        return sum(values) / len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
