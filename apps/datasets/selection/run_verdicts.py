"""From the votes on single runs to rows, or to the reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from apps.datasets.recipe import Recipe
from apps.datasets.rows import ROW_TYPES
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.run_votes import RunDecision, RunVerdict, RunVote


def decide_run(votes: Sequence[RunVote], recipe: Recipe, *, steps: int) -> RunDecision:
    """Apply the recipe to the counted votes on one run of so many steps."""
    if not votes:
        return RunDecision([], [Drop.OVERRULED])
    rule = ROW_TYPES[recipe.row_type].runs
    assert rule is not None, f"no {recipe.row_type} row is made of a single trajectory"
    groups = [[vote] for vote in votes] if recipe.judgements == "each" else [list(votes)]
    verdicts: list[RunVerdict] = []
    dropped: list[Drop] = []
    for group in groups:
        found = rule.decide(group, recipe.minimum_margin, steps)
        verdicts += found.verdicts
        dropped += found.dropped
    if recipe.judgements == "each" and verdicts and rule.divides_weight:
        verdicts = [verdict._replace(weight=1 / len(verdicts)) for verdict in verdicts]
    return RunDecision(verdicts, dropped)
