"""The interface of reward components."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from contract.trajectory import Trajectory


@dataclass(frozen=True)
class Score:
    """One component's score of one trajectory."""

    value: float | None
    """Within the component's range; None if it has no score, such as a judge that didn't answer."""
    turns: list[float] | None = None
    """One value per turn, for components that score turns. They attribute the trajectory's value to turns, in the same unit; they need not add up to it."""
    details: dict[str, float] = field(default_factory=dict)
    """Further numbers to log, by name."""


class Component(Protocol):
    """Scores finished trajectories, many at once, so that models get batches and servers parallel requests."""

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        """One score per trajectory, in order. Never raises because of a policy's behavior."""
        ...
