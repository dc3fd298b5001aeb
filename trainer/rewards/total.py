"""The weighted sum of components, with every part kept."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from contract.configs.rewards import RewardsConfig, name_of
from contract.trajectory import Trajectory
from trainer.rewards.protocol import Component, Score


@dataclass(frozen=True)
class Reward:
    """The reward of one trajectory, with its parts."""

    total: float
    """Σ weight · value. A missing value is replaced by the term's mean over the task's other trajectories, or else over all."""
    parts: dict[str, float | None]
    """Each term's own value, before its weight."""
    turns: list[float]
    """For each turn, Σ weight · value over the terms that score turns; all 0 if there are none."""
    details: dict[str, float] = field(default_factory=dict)
    """`<term>/<name>` -> number."""


class Rewards:
    """The terms of a config, ready to score."""

    def __init__(self, config: RewardsConfig, components: Sequence[Component]) -> None:
        """`components` in the order of `config.terms`."""
        self.config = config
        self.components = components
        self.names = [name_of(term) for term in config.terms]

    def score(self, trajectories: Sequence[Trajectory]) -> list[Reward]:
        """One reward per trajectory, in order."""
        columns = [component.score(trajectories) for component in self.components]
        counted = [values_of(column, [trajectory.task.key for trajectory in trajectories]) for column in columns]
        return [
            self._sum(
                [column[index] for column in columns], [values[index] for values in counted], len(trajectory.steps)
            )
            for index, trajectory in enumerate(trajectories)
        ]

    def _sum(self, scores: list[Score], values: list[float], turns: int) -> Reward:
        total = 0.0
        credit = [0.0] * turns
        details: dict[str, float] = {}
        for term, name, score, counted in zip(self.config.terms, self.names, scores, values, strict=True):
            total += term.weight * counted
            for turn, value in enumerate(score.turns or ()):
                credit[turn] += term.weight * value
            details |= {f"{name}/{detail}": value for detail, value in score.details.items()}
        parts = {name: score.value for name, score in zip(self.names, scores, strict=True)}
        return Reward(total, parts, credit, details)


def values_of(scores: Sequence[Score], tasks: Sequence[str]) -> list[float]:
    """One term's value for each trajectory: if missing, the mean of the task's others, or else of all, or else 0.

    A missing answer of a judge must not count as its worst grade: within its group, such a trajectory would get the most
    negative advantage.
    """
    by_task: dict[str, list[float]] = defaultdict(list)
    for score, task in zip(scores, tasks, strict=True):
        if score.value is not None:
            by_task[task].append(score.value)
    everywhere = [value for values in by_task.values() for value in values] or [0.0]
    return [
        score.value if score.value is not None else fmean(by_task[task] or everywhere)
        for score, task in zip(scores, tasks, strict=True)
    ]


def metrics_of(rewards: Sequence[Reward]) -> dict[str, float]:
    """Mean and standard deviation of the total and of each part, under TRL's names; `/missing` is the share of trajectories without a value."""
    if not rewards:
        return {}
    totals = [reward.total for reward in rewards]
    metrics = {"reward": fmean(totals), "reward_std": pstdev(totals)}
    for name in rewards[0].parts:
        values = [value for reward in rewards if (value := reward.parts[name]) is not None]
        if values:
            metrics |= {f"rewards/{name}/mean": fmean(values), f"rewards/{name}/std": pstdev(values)}
        if len(values) < len(rewards):
            metrics[f"rewards/{name}/missing"] = 1 - len(values) / len(rewards)
    for name in sorted({name for reward in rewards for name in reward.details}):
        metrics[f"rewards/{name}"] = fmean(reward.details[name] for reward in rewards if name in reward.details)
    return metrics
