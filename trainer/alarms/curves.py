"""Everything that a run has measured so far, and what rules ask of it. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

WINDOW = 10
"""Measurements that a mean is over."""
MASTERED = 0.85
"""Above this share of successes groups are alike and entropy is low because the tasks are solved."""
FALL_FROM_BEST = 0.16
"""Of success, between means of three evaluations: three times the standard error of the difference, with 60 tasks an evaluation."""
FALL_FROM_FIRST = 0.22
"""The same from the evaluation before training, which is only one."""
PATIENCE = 15
"""Measurements for which an alarm waits for an evaluation."""
RISE = 0.1
"""Of success on held-out tasks: less is within the noise of 60 tasks that are attempted with the same random numbers."""


@dataclass
class Curves:
    """Everything that was measured so far, by name, in order."""

    values: dict[str, list[float]] = field(default_factory=dict)
    learned: Sequence[str] = ()
    """Rewards that are a model's opinion, and so can be gamed; where there is none the whole reward is looked at."""

    def add(self, values: Mapping[str, float | None]) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(math.nan if value is None else value)

    def known(self, name: str, least: int = 1) -> bool:
        return len(self.values.get(name, ())) >= least

    def newest(self, name: str) -> float:
        return self.values[name][-1] if self.known(name) else 0.0

    def first(self, name: str, count: int = WINDOW) -> float:
        return fmean(self.values[name][:count])

    def last(self, name: str, count: int = WINDOW) -> float:
        return fmean(self.values[name][-count:])

    @property
    def mastered(self) -> bool:
        return any(self.known(name) and self.last(name, 2) >= MASTERED for name in ("eval/success", "success"))

    @property
    def awaits_evaluation(self) -> bool:
        """Held-out success was evaluated before training alone, and will soon show whether it rises."""
        return len(self.values.get("eval/success", [])) == 1 and len(self.values.get("reward", [])) < PATIENCE

    @property
    def improves(self) -> bool:
        """Held-out success has risen since before training, and has not fallen again."""
        success = self.values.get("eval/success", [])
        return len(success) > 1 and success[-1] >= max(success[0] + RISE, max(success) - FALL_FROM_BEST)
