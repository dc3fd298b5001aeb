"""Preferences of simulated annotators: three compare two rollouts of a task, each with some error rate.

They are shown any two rollouts, not only a success and a failure, since outcomes are unknown when people are asked. The true preference is the
environment's: success first, then sub-goals, then fewer turns. Not modeled: correlated errors, position bias, fatigue, and ties.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

from bench.learning.pairs import distinct, pair
from contract.trajectory import Trajectory
from trainer.rewards.environment import share_of

SKILLS = (0.95, 0.85, 0.75)
"""Each annotator's accuracy. With three of them the majority is right in 95 of 100 pairs."""


class Quality(NamedTuple):
    """The criteria for the better rollout, in this order."""

    success: bool
    subgoals: float
    fewer_turns: int


def quality(rollout: Trajectory) -> Quality:
    return Quality(
        bool(rollout.outcome.success), share_of(rollout.info.get("subgoals")) or 0.0, fewer_turns=-len(rollout.steps)
    )


def progress(rollout: Trajectory) -> tuple[bool, float]:
    """The criteria without the number of turns: of two failures that reached the same sub-goals, the shorter one isn't better."""
    return quality(rollout)[:2]


def success_first(rollout: Trajectory) -> Quality:
    """The same criteria, with all failures equal."""
    return quality(rollout) if rollout.outcome.success else Quality(False, 0.0, 0)


def preferences(
    rollouts: list[Trajectory], *, per_task: int, seed: int, measure: Callable[[Trajectory], Any] = quality
) -> list[dict[str, Any]]:
    """Preference rows: `per_task` random pairs per task, without equals; see `majority_row`."""
    chance = random.Random(seed)
    pairs = which_differ(rollouts, per_task=per_task, chance=chance, measure=measure)
    return [majority_row(better, worse, chance) for better, worse in pairs]


def majority_row(better: Trajectory, worse: Trajectory, chance: random.Random) -> dict[str, Any]:
    """The preference row of a pair: the annotators' majority's choice, with its share as the soft label."""
    votes = sum(chance.random() < skill for skill in SKILLS)
    majority = max(votes, len(SKILLS) - votes)
    chosen, rejected = (better, worse) if votes == majority else (worse, better)
    return {**pair(chosen, rejected), "soft_label": majority / len(SKILLS)}


def which_differ(
    rollouts: list[Trajectory],
    *,
    per_task: int,
    chance: random.Random,
    measure: Callable[[Trajectory], Any] = quality,
) -> Iterator[tuple[Trajectory, Trajectory]]:
    """`per_task` random pairs per task that differ by `measure`, the better one first."""
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.steps:
            by_task[rollout.task.key].append(rollout)
    for group in by_task.values():
        differ = [(a, b) for a, b in combinations(distinct(group), 2) if measure(a) != measure(b)]
        for a, b in chance.sample(differ, min(per_task, len(differ))):
            yield (a, b) if measure(a) > measure(b) else (b, a)
