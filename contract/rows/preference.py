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
    """Two ways to go on from the same prompt, the better one first."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    prompt: Messages
    """Chat messages that both trajectories truly share: all leading steps that are the same to the byte, and what came before the first that isn’t."""
    chosen: Messages
    """The rest of the better one: assistant turns with tool and user messages between them, ending with the last assistant turn."""
    rejected: Messages
    """The rest of the other one."""
    tools: Tools = field(default_factory=list)
    id: RowId = ""
    task: TaskKey = ""
    environment: EnvironmentName = ""
    chosen_run: TrajectoryId = ""
    rejected_run: TrajectoryId = ""
    chosen_policy: PolicyName = ""
    rejected_policy: PolicyName = ""
    adjudication: str = ""
    """Id of the reviewer’s decision that made the row, empty where votes did."""
    # No column that Retrace writes may be `margin`: TRL gives that a meaning of its own.
    strength: float = 0.0
    """Mean strength of the votes for the winner, 1 to 3."""
    weight: Weight = 1.0
    """How much the row counts. With `majority` lead / votes, or the lead in likelihood where habits or skills are known; with `each` 1 / rows of the pair."""
    soft_label: Share | None = None
    """How likely it is that the chosen one is the better one (with `each` it can be below ½: others know better)."""
    label_weight: Weight = 1.0
    """How much that says: the chance that either is better, so ties lower it; with `each` shared among the pair’s rows."""
    shown_left: Share | None = None
    """The share of the judgments in which the chosen one stood on the left."""
    votes_for: int = 0
    """Judgments for the chosen one."""
    votes_against: int = 0
    """Judgments for the other one."""
    votes_tied: int = 0
    """Judgments for neither."""
    annotators: Annotators = field(default_factory=list)
    judgements: JudgmentIds = field(default_factory=list)
    items: ItemIds = field(default_factory=list)
    margin: float | None = foreign(None)
    """Read from other people’s files, never written: the least difference of rewards that a reward model is asked for."""
    tie: bool = foreign(False)
    """Read from other people’s files, never written: neither is better, `chosen` only comes first."""

    @classmethod
    def from_json(cls, row: JsonObject) -> Self:
        """Also of a step preference. Raises ValueError."""
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
    """The other one."""
    tools: Tools = field(default_factory=list)
    id: RowId = ""
    task: TaskKey = ""
    environment: EnvironmentName = ""
    chosen_run: str = ""
    """Id of the trajectory that the better action is from, empty for a correction."""
    rejected_run: TrajectoryId = ""
    chosen_policy: PolicyName = ""
    rejected_policy: PolicyName = ""
    origin: str = ""
    """`correction`, or `divergence` where two trajectories part."""
    weight: Weight = 1.0
    """How much the row counts."""
    step: int = 0
    """Which step, from 0."""
    annotators: Annotators = field(default_factory=list)
    judgements: JudgmentIds = field(default_factory=list)
    items: ItemIds = field(default_factory=list)
