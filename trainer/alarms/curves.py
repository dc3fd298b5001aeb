"""The metrics of a run so far, and the statistics that rules need. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

WINDOW = 10
"""Window of a mean, in measurements."""
MASTERED = 0.85
"""Above this success rate, groups have equal rewards and low entropy because the tasks are solved."""
FALL_FROM_BEST = 0.16
"""Minimum change of success between means of three evaluations: three standard errors of the difference, with 60 tasks per evaluation."""
FALL_FROM_FIRST = 0.22
"""The same, relative to the single evaluation before training."""
SUDDEN = 3.5
"""The same between the best and the newest single evaluation, in standard errors of the difference: there are several that could be the best by chance."""
PATIENCE = 15
"""How many measurements an alarm waits for an evaluation."""
RISE = 0.1
"""Minimum change of held-out success: less is noise with 60 tasks attempted with the same random numbers."""


@dataclass
class Curves:
    """All metrics so far, by name, in order."""

    values: dict[str, list[float]] = field(default_factory=dict)
    learned: Sequence[str] = ()
    """Learned reward terms, which can be hacked; without any, the total reward is used."""

    def add(self, values: Mapping[str, float | None]) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(math.nan if value is None else value)

    def has(self, name: str, least: int = 1) -> bool:
        return len(self.values.get(name, ())) >= least

    def newest(self, name: str) -> float:
        return self.values[name][-1] if self.has(name) else 0.0

    def first(self, name: str, count: int = WINDOW) -> float:
        return fmean(self.values[name][:count])

    def last(self, name: str, count: int = WINDOW) -> float:
        return fmean(self.values[name][-count:])

    @property
    def mastered(self) -> bool:
        return any(self.has(name) and self.last(name, 2) >= MASTERED for name in ("eval/success", "success"))

    @property
    def awaits_evaluation(self) -> bool:
        """Held-out success has only been evaluated before training, and the next evaluation will show whether it rises."""
        return len(self.values.get("eval/success", [])) == 1 and len(self.values.get("reward", [])) < PATIENCE

    @property
    def improves(self) -> bool:
        """Held-out success has risen since before training, and has not fallen again."""
        success = self.values.get("eval/success", [])
        return len(success) > 1 and success[-1] >= max(success[0] + RISE, max(success) - FALL_FROM_BEST)
