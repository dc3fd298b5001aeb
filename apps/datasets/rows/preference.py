"""Preferences: the better of two trajectories, from the first step at which they differ."""

from __future__ import annotations

from typing import Any

from apps.datasets.rows.divergence import Sides, sides
from apps.datasets.rows.row_type import Layout, PairRule, RowType
from apps.datasets.selection.votes import Verdict
from contract.rows import PreferenceRow

DECIMALS = 6
"""Rounding of probabilities, so that floating-point differences between machines don't change a version's hash."""


def _metadata(verdict: Verdict, _: Sides) -> dict[str, Any]:
    return {
        "adjudication": str(verdict.ruling or ""),
        "strength": verdict.strength,
        "weight": verdict.weight,
        "soft_label": round(verdict.soft_label, DECIMALS),
        "label_weight": round(verdict.label_weight, DECIMALS),
        "shown_left": round(verdict.shown_left, DECIMALS),
        **verdict.tally()._asdict(),
    }


PREFERENCE = RowType(
    name="preference",
    title="Preferences: the better of two trajectories",
    layout=Layout(PreferenceRow),
    queue_kinds=("pairwise",),
    tags=("preference", "dpo", "reward-modelling"),
    pairs=PairRule(sides=sides, metadata=_metadata),
    trainer="DPO",
)
