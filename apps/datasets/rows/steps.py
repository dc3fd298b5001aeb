"""Process labels: a trajectory with a label at each step, and its first error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from apps.datasets.rows.chat_encoding import Turn
from apps.datasets.rows.row_type import Layout, Messages, RowType, StepCorrection, TrajectoryRule, whole
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.trajectory_votes import TrajectoryDecision, TrajectoryVerdict, TrajectoryVote
from contract.rows import ProcessLabelsRow


def _decide(votes: Sequence[TrajectoryVote], _: int, steps: int) -> TrajectoryDecision:
    """Each step's mean label, and the first error if more than half of those who looked for one agree on it."""
    labels: list[float | None] = []
    for step in range(steps):
        values = [vote.labels[step] for vote in votes if step in vote.labels]
        labels.append(round(fmean(values), 6) if values else None)
    looked = [vote.first_error for vote in votes if vote.first_error is not None]
    first_error = max(set(looked), key=looked.count) if looked else None
    if first_error is not None and 2 * looked.count(first_error) <= len(looked):
        first_error = None
    if first_error is None and not any(label is not None for label in labels):
        return TrajectoryDecision([], [Drop.NO_LABELS])
    metadata = {"step_labels": labels, "first_error": first_error}
    return TrajectoryDecision([TrajectoryVerdict(tuple(votes), 1.0, metadata)], [])


def _messages(turns: Sequence[Turn], _: StepCorrection | None) -> Messages:
    return (whole(turns),)


def _contents(metadata: Mapping[str, Any]) -> list[str]:
    labels = [label for label in metadata["step_labels"] if label is not None]
    error = metadata["first_error"]
    return [
        *("good" if label > 0 else "bad" if label < 0 else "neutral" for label in labels),
        "no_first_error_known" if error is None else "without_error" if error < 0 else "with_error",
    ]


STEPS = RowType(
    name="steps",
    title="Process labels: a label at each step",
    layout=Layout(ProcessLabelsRow),
    queue_kinds=("steps",),
    tags=("process-reward-model", "step-level"),
    trajectories=TrajectoryRule(decide=_decide, messages=_messages, divides_weight=True),
    contents=_contents,
)
