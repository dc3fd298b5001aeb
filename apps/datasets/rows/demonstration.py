"""Demonstrations: accepted trajectories, and trajectories up to a correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.datasets.rows.chat_encoding import Turn
from apps.datasets.rows.row_type import Layout, Messages, RowType, StepCorrection, TrajectoryRule, whole
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.trajectory_votes import TrajectoryDecision, TrajectoryVerdict, TrajectoryVote
from contract.rows import DemonstrationRow


def _decide(votes: Sequence[TrajectoryVote], minimum_margin: int, steps: int) -> TrajectoryDecision:
    """The whole trajectory if accepted; and per annotator, the part up to their first correction, with that as its end. Bad turns are masked."""
    verdicts = []
    lead = sum(vote.opinion for vote in votes)
    if lead >= minimum_margin:
        train = _not_bad(votes, steps)
        if any(train):
            metadata = {"train_turns": train, "origin": "accepted"}
            verdicts.append(TrajectoryVerdict(tuple(votes), 1.0, metadata))
    for vote in votes:
        if vote.corrections:
            correction = vote.corrections[0]
            train = [*_right_before(vote, correction[0]), True]
            metadata = {"train_turns": train, "origin": "corrected"}
            verdicts.append(TrajectoryVerdict((vote,), 1.0, metadata, correction))
    return TrajectoryDecision(verdicts, [] if verdicts else [Drop.NOT_ACCEPTED])


def _not_bad(votes: Sequence[TrajectoryVote], steps: int) -> list[bool]:
    """For each of the first `steps` steps, whether the sum of its labels over all votes isn't negative."""
    return [sum(vote.labels.get(step, 0) for vote in votes) >= 0 for step in range(steps)]


def _right_before(vote: TrajectoryVote, steps: int) -> list[bool]:
    """For each of the first `steps` steps, whether one vote doesn't call it bad. Steps from its first error on are bad unless labeled individually."""
    error = steps if vote.first_error is None or vote.first_error < 0 else vote.first_error
    return [good and (step < error or step in vote.labels) for step, good in enumerate(_not_bad([vote], steps))]


def _messages(turns: Sequence[Turn], correction: StepCorrection | None) -> Messages:
    """The whole trajectory, or the part up to a step with the corrected action, which ends the row."""
    if correction is None:
        return (whole(turns),)
    step, better = correction
    return ([*whole(turns[:step]), *turns[step].context, better],)


def _contents(metadata: Mapping[str, Any]) -> list[str]:
    return [metadata["origin"]]


DEMONSTRATION = RowType(
    name="demonstrations",
    title="Demonstrations: accepted or corrected trajectories",
    layout=Layout(DemonstrationRow),
    queue_kinds=("steps", "rating"),
    tags=("sft",),
    trajectories=TrajectoryRule(decide=_decide, messages=_messages),
    contents=_contents,
    trainer="SFT",
)
