"""A preview of what a recipe would produce."""

from __future__ import annotations

from typing import NamedTuple

from apps.accounts.models import Workspace
from apps.annotation.queries import flagged_items
from apps.common.quantities import count
from apps.datasets.models import Split
from apps.datasets.recipe import Recipe
from apps.datasets.selection.drops import REASONS
from apps.datasets.selection.splits import assign, family_of
from apps.datasets.selection.survey import Survey, survey


class SplitPreview(NamedTuple):
    """One split of the preview."""

    split: Split
    tasks: int
    new_tasks: int
    """Tasks that would be permanently assigned to this split."""
    rows: int
    share: float


class Preview(NamedTuple):
    """A version as it would be frozen."""

    survey: Survey
    splits: list[SplitPreview]
    dropped: list[tuple[str, int]]
    """(reason, count) of what would be dropped."""
    flagged: int = 0
    """Flagged items of its queues that would be included."""

    @property
    def warnings(self) -> list[str]:
        """What to know before freezing."""
        warnings = []
        if self.flagged:
            warnings.append(
                f"Annotators flagged {count(self.flagged)} of these items. View trajectories on the page of their queue, or leave them out."
            )
        rows = {entry.split: entry.rows for entry in self.splits}
        if self.survey.rows and not rows[Split.TRAIN]:
            warnings.append("No row is for training: all these tasks are held out or in another split.")
        if rows[Split.TRAIN] and not rows[Split.VALIDATION] and not rows[Split.TEST]:
            warnings.append("Every row is for training, so nothing is left to evaluate on.")
        return warnings


def preview(recipe: Recipe, workspace: Workspace) -> Preview:
    """Count rows, tasks, and drops. Reads only judgments, no steps."""
    sources = survey(recipe, workspace)
    entries = sources.tasks.values()
    family = family_of([entry.task for entry in entries], workspace)
    chosen = assign(family.tasks, shares=recipe.shares, seed=recipe.seed, wholes=family.wholes)
    splits = []
    for split in Split:
        inside = [entry for entry in entries if chosen[entry.task.id] is split]
        rows = sum(entry.rows for entry in inside)
        new = sum(entry.task.split is None for entry in inside)
        splits.append(SplitPreview(split, len(inside), new, rows, rows / sources.rows if sources.rows else 0.0))
    dropped = [(REASONS[reason], times) for reason, times in sources.dropped.most_common()]
    kept_count = len(flagged_items(recipe.queues)) if recipe.flagged == "keep" else 0
    return Preview(sources, splits, dropped, kept_count)
