"""Preference pairs from a policy's own rollouts, labeled by their outcomes."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean
from typing import Any

from contract.trajectory import Trajectory


def pairs_by_outcome(rollouts: list[Trajectory], *, per_task: int) -> list[dict[str, Any]]:
    """Preference rows: per task, successes against failures, at most `per_task` distinct pairs."""
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.steps:
            by_task[rollout.task.key].append(rollout)
    rows = []
    for group in by_task.values():
        good = distinct([rollout for rollout in group if rollout.outcome.success])
        bad = distinct([rollout for rollout in group if not rollout.outcome.success])
        rows += [pair(chosen, rejected) for chosen, rejected in zip(good, bad, strict=False)][:per_task]
    return rows


def pairs_by_branch(failed: list[Trajectory], branches: list[Trajectory], *, per_task: int) -> list[dict[str, Any]]:
    """Preference rows: a failed run against a success that branches off at its first error, at most `per_task` pairs per task."""
    better: dict[str, Trajectory] = {}
    for trajectory in branches:
        if trajectory.outcome.success:
            better.setdefault(trajectory.info["branch"]["of"], trajectory)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trajectory in failed:
        if trajectory.id in better and len(rows[trajectory.task.key]) < per_task:
            rows[trajectory.task.key].append(pair(better[trajectory.id], trajectory))
    return [row for of_task in rows.values() for row in of_task]


def pairs_by_value(failed: list[Trajectory], branches: list[Trajectory]) -> list[dict[str, Any]]:
    """Preference rows: a failed run against a success that branches off at the turn that lost the most value.

    The value before a turn is the share of successes among `branches` continued from there (Wang et al., 2024, Math-Shepherd, arXiv 2312.08935); after
    the last turn it is 0. A run in which no turn lost value, or without a success that acts differently there, gives no row.
    """
    from_turn: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
    for trajectory in branches:
        from_turn[trajectory.info["branch"]["of"], trajectory.info["branch"]["turn"]].append(trajectory)
    rows = []
    for trajectory in failed:
        chances = [success_rate(from_turn[trajectory.id, turn]) for turn in range(len(trajectory.steps))] + [0.0]
        losses = [before - after for before, after in pairwise(chances)]
        worst = max(range(len(losses)), key=losses.__getitem__, default=0)
        better = [
            rollout
            for rollout in from_turn[trajectory.id, worst]
            if rollout.outcome.success and parts_at(rollout, trajectory, worst)
        ]
        if better and losses[worst] > 0:
            rows.append(pair(better[0], trajectory))
    return rows


def success_rate(trajectories: list[Trajectory]) -> float:
    """0 for no runs."""
    return fmean([bool(trajectory.outcome.success) for trajectory in trajectories] or [0.0])


def parts_at(trajectory: Trajectory, other: Trajectory, turn: int) -> bool:
    """Whether `trajectory`, which is equal to `other` until this turn, acts differently in it."""
    return len(trajectory.steps) > turn and trajectory.steps[turn].message != other.steps[turn].message


def few_of_each_task(trajectories: list[Trajectory], at_most: int | None) -> list[Trajectory]:
    """The first runs of each task, in order."""
    seen: Counter[str] = Counter()
    drawn = []
    for trajectory in trajectories:
        seen[trajectory.task.key] += 1
        if at_most is None or seen[trajectory.task.key] <= at_most:
            drawn.append(trajectory)
    return drawn


def pair(chosen: Trajectory, rejected: Trajectory) -> dict[str, Any]:
    """A preference row whose prompt is the shared prefix."""
    a, b = chosen.messages(), rejected.messages()
    shared = next((index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return {"prompt": a[:shared], "chosen": a[shared:], "rejected": b[shared:], "tools": chosen.tools}


def failures(rollouts: Iterable[Trajectory]) -> list[Trajectory]:
    """Distinct rollouts that acted and failed."""
    return distinct([rollout for rollout in rollouts if rollout.steps and not rollout.outcome.success])


def distinct(rollouts: list[Trajectory]) -> list[Trajectory]:
    """Rollouts without duplicates."""
    return list({str(rollout.messages()): rollout for rollout in rollouts}.values())
