"""Unpaired trajectories: each labeled desirable or undesirable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.datasets.rows.chat_encoding import Turn
from apps.datasets.rows.divergence import NothingBefore
from apps.datasets.rows.row_type import Layout, Messages, RowType, StepCorrection, TrajectoryRule, whole
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.trajectory_votes import TrajectoryDecision, TrajectoryVerdict, TrajectoryVote
from contract.rows import UnpairedRow


def _decide(votes: Sequence[TrajectoryVote], minimum_margin: int, _: int) -> TrajectoryDecision:
    """Desirable if more annotators accept the trajectory than don't."""
    lead = sum(vote.opinion for vote in votes)
    if not any(vote.opinion for vote in votes):
        return TrajectoryDecision([], [Drop.NO_OPINION])
    if abs(lead) < minimum_margin:
        return TrajectoryDecision([], [Drop.NO_MAJORITY])
    return TrajectoryDecision(
        [TrajectoryVerdict(tuple(votes), round(abs(lead) / len(votes), 6), {"label": lead > 0})], []
    )


def _messages(turns: Sequence[Turn], _: StepCorrection | None) -> Messages:
    """Prompt and completion: the messages before the first turn, and the rest. Raises NothingBefore."""
    prompt = turns[0].context
    if not prompt:
        raise NothingBefore
    return prompt, whole(turns)[len(prompt) :]


def _contents(metadata: Mapping[str, Any]) -> list[str]:
    return ["desirable" if metadata["label"] else "undesirable"]


UNPAIRED = RowType(
    name="unpaired",
    title="Unpaired: single trajectories, desirable or not",
    layout=Layout(UnpairedRow),
    queue_kinds=("steps", "rating"),
    tags=("kto", "unpaired-preference"),
    trajectories=TrajectoryRule(decide=_decide, messages=_messages, divides_weight=True),
    contents=_contents,
    trainer="KTO",
)
