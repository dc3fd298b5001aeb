"""Counts what a recipe would produce, without reading any steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from apps.accounts.models import Workspace
from apps.datasets.recipe import Recipe
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.pairs import can_make_rows, judged_pairs
from apps.datasets.selection.single_trajectories import judged_trajectories
from apps.datasets.selection.splits import SplitTask


@dataclass
class TaskRows:
    """A task and the number of rows from its pairs."""

    task: SplitTask
    rows: int = 0


@dataclass
class Survey:
    """What a recipe would produce, counted without reading any steps."""

    judgments: int = 0
    """Votes that were counted."""
    pairs: int = 0
    runs: int = 0
    """Single trajectories with a judgment."""
    rows: int = 0
    dropped: Counter[Drop] = field(default_factory=Counter)
    tasks: dict[UUID, TaskRows] = field(default_factory=dict)
    """Tasks with at least one row."""

    def add(self, task: SplitTask, *, votes: int, rows: int, dropped: Sequence[Drop]) -> None:
        """Count the outcome of one pair or trajectory."""
        self.judgments += votes
        if dropped:
            self.dropped.update(dropped)
        if rows:
            self.rows += rows
            self.tasks.setdefault(task.id, TaskRows(task)).rows += rows


def survey(recipe: Recipe, workspace: Workspace) -> Survey:
    """Count what the recipe would produce. Pairs of identical trajectories aren't detected, since that requires their steps."""
    result = Survey()
    for pair, votes, decision in judged_pairs(recipe, workspace):
        result.add(pair.task, votes=len(votes), rows=len(decision.verdicts), dropped=decision.dropped)
        result.pairs += bool(votes)
    for judged in judged_trajectories(recipe, workspace):
        decided = judged.decision
        result.add(judged.task, votes=len(judged.counted), rows=len(decided.verdicts), dropped=decided.dropped)
        result.runs += 1
    return result


def can_have_rows(recipe: Recipe, workspace: Workspace) -> bool:
    """Whether the recipe would produce any rows, as far as that is known without a label-aggregation model; reads judgments only up to the first that
    does.
    """
    return can_make_rows(recipe, workspace) or any(
        judged.decision.verdicts for judged in judged_trajectories(recipe, workspace)
    )
