"""Step preferences: the better of two actions, where two trajectories diverge or where an annotator corrected one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.datasets.rows.chat_encoding import Turn, alike
from apps.datasets.rows.divergence import NothingBefore, SameTrajectories, Sides, first_actions
from apps.datasets.rows.row_type import (
    Layout,
    Messages,
    PairRule,
    RowType,
    StepCorrection,
    TrajectoryRule,
    whole,
)
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.trajectory_votes import TrajectoryDecision, TrajectoryVerdict, TrajectoryVote
from apps.datasets.selection.votes import Verdict
from contract.rows import StepPreferenceRow


def _divergence_metadata(verdict: Verdict, sides: Sides) -> dict[str, Any]:
    return {"origin": "divergence", "weight": verdict.weight, "step": sides.shared_turns}


def _decide(votes: Sequence[TrajectoryVote], _: int, __: int) -> TrajectoryDecision:
    """Every correction is preferred to the policy's action at that step."""
    verdicts = [
        TrajectoryVerdict((vote,), 1.0, {"origin": "correction", "step": correction[0]}, correction)
        for vote in votes
        for correction in vote.corrections
    ]
    return TrajectoryDecision(verdicts, [] if verdicts else [Drop.NO_CORRECTION])


def corrected_action(turns: Sequence[Turn], correction: StepCorrection | None) -> Messages:
    """Prompt, chosen, rejected: the trajectory up to a step, the corrected action, and the policy's action.

    Raises SameTrajectories and NothingBefore.
    """
    assert correction is not None, "a step preference of a single trajectory is a correction"
    step, better = correction
    if alike(better, turns[step].message):
        raise SameTrajectories
    prompt = [*whole(turns[:step]), *turns[step].context]
    if not prompt:
        raise NothingBefore
    return prompt, [better], [turns[step].message]


def _contents(metadata: Mapping[str, Any]) -> list[str]:
    return [metadata["origin"]]


STEP_PREFERENCE = RowType(
    name="step_preferences",
    title="Step preferences: the better of two actions",
    layout=Layout(StepPreferenceRow),
    queue_kinds=("steps", "pairwise"),
    tags=("preference", "dpo", "step-level"),
    pairs=PairRule(sides=first_actions, metadata=_divergence_metadata),
    trajectories=TrajectoryRule(decide=_decide, messages=corrected_action),
    contents=_contents,
    trainer="DPO",
)
