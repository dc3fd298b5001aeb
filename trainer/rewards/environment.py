"""Rewards from the environment: the outcome, subgoals, broken rules, and the number of turns.

Computed from the recorded trajectory, so a live episode and a stored one give the same numbers.
"""

from collections.abc import Sequence
from math import isnan
from typing import Any

from contract.configs.rewards import OutcomeTerm, StepCostTerm
from contract.trajectory import Step, Trajectory
from trainer.environments.protocol import SUCCESS_FROM_REWARD
from trainer.rewards.protocol import Score


class Outcome:
    """The outcome of the trajectory; turns have the environment's step rewards, in the same bounds."""

    def __init__(self, term: OutcomeTerm) -> None:
        self.term = term

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        return [self._score(trajectory) for trajectory in trajectories]

    def _score(self, trajectory: Trajectory) -> Score:
        outcome = trajectory.outcome
        success = None if outcome.success is None else float(outcome.success)
        if self.term.measure == "success" and not trajectory.info.get(SUCCESS_FROM_REWARD):
            value = outcome.reward if success is None else success
        else:
            value = success if outcome.reward is None else outcome.reward
        rewards = [step.reward for step in trajectory.steps]
        turns = (
            [bounded(reward) or 0.0 for reward in rewards] if any(reward is not None for reward in rewards) else None
        )
        return Score(bounded(value), turns)


def bounded(value: float | None) -> float | None:
    """Clips a reward to [-1, 1], since environments and runners may report any number. None for NaN, which `min` would turn into 1."""
    return None if value is None or isnan(value) else max(-1.0, min(1.0, value))


class StepCost:
    """A cost per turn."""

    def __init__(self, term: StepCostTerm) -> None:
        self.term = term

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        penalty = -1 / self.term.limit
        return [
            Score(max(-1.0, penalty * len(trajectory.steps)), [penalty] * len(trajectory.steps))
            for trajectory in trajectories
        ]


class Subgoals:
    """The share of subgoals reached; a turn has its change of that share."""

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        return [self._score(trajectory) for trajectory in trajectories]

    def _score(self, trajectory: Trajectory) -> Score:
        reached = trajectory.info.get("subgoals") or {}
        if not reached:
            return Score(None)
        shares = [share_of(step.info.get("subgoals")) for step in trajectory.steps]
        turns = None if None in shares else differences([share or 0.0 for share in shares])
        return Score(share_of(reached), turns)


class Safety:
    """Broken rules. `info["violations"]` of a step lists them: {"rule": name, "hard": whether the action was refused}."""

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        return [self._score(trajectory) for trajectory in trajectories]

    def _score(self, trajectory: Trajectory) -> Score:
        turns = [self._turn(step) for step in trajectory.steps]
        hard = -1.0 in turns
        share = sum(turns) / max(1, len(turns))
        broken = sum(len(violations_in(step)) for step in trajectory.steps)
        return Score(-1.0 if hard else share, turns, {"violations": float(broken)})

    def _turn(self, step: Step) -> float:
        violations = violations_in(step)
        if any(violation.get("hard") for violation in violations):
            return -1.0
        return -0.5 if violations else 0.0


def violations_in(step: Step) -> list[dict[str, Any]]:
    return [violation for violation in step.info.get("violations") or () if isinstance(violation, dict)]


def share_of(reached: dict[str, bool] | None) -> float | None:
    if not reached:
        return None
    return sum(map(bool, reached.values())) / len(reached)


def differences(values: Sequence[float]) -> list[float]:
    """[0.5, 0.5, 1.0] -> [0.5, 0.0, 0.5]"""
    return [value - before for before, value in zip([0.0, *values], values, strict=False)]
