"""What every component of a reward offers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from contract.trajectory import Trajectory


@dataclass(frozen=True)
class Score:
    """One component's word on one run."""

    value: float | None
    """Within the range that the component's config states; None where it has nothing to say, such as a judge that did not answer."""
    turns: list[float] | None = None
    """One value a turn, where it tells turns apart. They say which turns earned the run's value, in the same unit; they need not add up to it."""
    details: dict[str, float] = field(default_factory=dict)
    """Further numbers to log, by name."""


class Component(Protocol):
    """Scores finished runs. Many at once, so that models see batches and servers parallel requests."""

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        """In order, one a run. Never raises for what a policy did."""
        ...
