"""Preferences: the better of two trajectories, or of two actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from contract.rows.declaration import (
    Annotators,
    EnvironmentName,
    ItemIds,
    JudgmentIds,
    Messages,
    PolicyName,
    RowId,
    Share,
    TaskKey,
    Tools,
    TrajectoryId,
    Weight,
    completion_in,
    foreign,
    messages_in,
    numbers_in,
    tools_in,
)
from contract.values import JsonObject


@dataclass(slots=True)
class PreferenceRow:
    """Two continuations of the same prompt, the better one first."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    prompt: Messages
    """Chat messages that both trajectories share: all leading steps that are byte-identical, and the context of the first that isn't."""
    chosen: Messages
    """The rest of the better trajectory: assistant turns with tool and user messages between them, ending with the last assistant turn. Assistant messages that the policy didn't write have `"weight": 0` and no loss."""
    rejected: Messages
    """The rest of the other trajectory."""
    tools: Tools = field(default_factory=list)
    id: RowId = ""
    task: TaskKey = ""
    environment: EnvironmentName = ""
    chosen_run: TrajectoryId = ""
    rejected_run: TrajectoryId = ""
    chosen_policy: PolicyName = ""
    rejected_policy: PolicyName = ""
    adjudication: str = ""
    """Id of the reviewer's decision behind the row, empty if it comes from votes."""
    # Retrace must not write a column named `margin`, which has its own meaning in TRL.
    strength: float = 0.0
    """Mean strength of the votes for the winner, 1 to 3."""
    weight: Weight = 1.0
    """Weight of the row. With `majority`, lead / votes, or the lead in likelihood if a model of the annotators was fitted; with `each`, 1 / rows of the pair."""
    soft_label: Share | None = None
    """Probability that the chosen side is better (with `each` it can be below ½, if other annotators outweigh this one)."""
    label_weight: Weight = 1.0
    """Weight of the soft label: the probability that either side is better, so ties lower it; with `each`, divided among the pair's rows."""
    shown_left: Share | None = None
    """Of the judgments that recorded the sides, the share in which the chosen side was shown on the left; ½ if none did."""
    votes_for: int = 0
    """Judgments for the chosen side."""
    votes_against: int = 0
    """Judgments for the rejected side."""
    votes_tied: int = 0
    """Judgments for neither."""
    annotators: Annotators = field(default_factory=list)
    judgments: JudgmentIds = field(default_factory=list)
    items: ItemIds = field(default_factory=list)
    margin: float | None = foreign(None)
    """Read from others' files, never written: the reward margin required of a reward model."""
    tie: bool = foreign(False)
    """Read from others' files, never written: a tie; `chosen` is merely listed first."""

    @classmethod
    def from_json(cls, row: JsonObject) -> Self:
        """Also reads step preferences. Raises ValueError."""
        return cls(
            prompt=messages_in(row, "prompt"),
            chosen=completion_in(row, "chosen"),
            rejected=completion_in(row, "rejected"),
            tools=tools_in(row),
            tie=row.get("tie") is True,
            **numbers_in(cls, row),
        )


@dataclass(slots=True)
class StepPreferenceRow:
    """Two actions at one step, the better one first. Read as preferences."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    prompt: Messages
    """The trajectory up to the step."""
    chosen: Messages
    """The better action: one assistant message."""
    rejected: Messages
    """The other action."""
    tools: Tools = field(default_factory=list)
    id: RowId = ""
    task: TaskKey = ""
    environment: EnvironmentName = ""
    chosen_run: str = ""
    """Id of the trajectory with the better action, empty for a correction."""
    rejected_run: TrajectoryId = ""
    chosen_policy: PolicyName = ""
    rejected_policy: PolicyName = ""
    origin: str = ""
    """`correction`, or `divergence` where two trajectories diverge."""
    weight: Weight = 1.0
    """Weight of the row."""
    step: int = 0
    """Index of the step, from 0."""
    annotators: Annotators = field(default_factory=list)
    judgments: JudgmentIds = field(default_factory=list)
    items: ItemIds = field(default_factory=list)
