"""Rows from a single trajectory: demonstrations, unpaired rows, process labels."""

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
    TaskKey,
    Tools,
    TrajectoryId,
    Weight,
    completion_in,
    described,
    messages_in,
    number_in,
    numbers_in,
    tools_in,
    turns_in,
)
from contract.values import JsonObject


@dataclass(slots=True)
class DemonstrationRow:
    """A trajectory that is worth imitating."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    messages: Messages
    """The chat."""
    tools: Tools = field(default_factory=list)
    id: RowId = ""
    task: TaskKey = ""
    environment: EnvironmentName = ""
    run: TrajectoryId = ""
    policy: PolicyName = ""
    weight: Weight = 1.0
    """Weight of the row."""
    train_turns: list[bool] = field(default_factory=list)
    """For each turn, that is, each assistant message without `"weight": 0`, whether to learn from it; empty means all."""
    origin: str = ""
    """`accepted` or `corrected`."""
    annotators: Annotators = field(default_factory=list)
    judgments: JudgmentIds = field(default_factory=list)
    items: ItemIds = field(default_factory=list)

    @classmethod
    def from_json(cls, row: JsonObject) -> Self:
        """Raises ValueError."""
        messages = completion_in(row, "messages")
        return cls(messages, tools_in(row), train_turns=_train_turns(row, messages), **numbers_in(cls, row))


def _train_turns(row: JsonObject, messages: Messages) -> list[bool]:
    flags, turns = row.get("train_turns"), turns_in(messages)
    if flags is None:
        return []
    if not isinstance(flags, list) or len(flags) != turns or not all(isinstance(flag, bool) for flag in flags):
        raise ValueError(f"train_turns is {described(flags)}, not a list of {turns} booleans")
    if not any(flags):
        raise ValueError("train_turns is false for every turn, so there is nothing to learn from")
    return flags


@dataclass(slots=True)
class UnpairedRow:
    """A trajectory that is desirable, or isn't."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    prompt: Messages
    """The messages before the first turn."""
    completion: Messages
    """The messages from the first turn on."""
    label: bool
    """true where more judgments accept it than not."""
    tools: Tools = field(default_factory=list)
    id: RowId = ""
    task: TaskKey = ""
    environment: EnvironmentName = ""
    run: TrajectoryId = ""
    policy: PolicyName = ""
    weight: Weight = 1.0
    """Weight of the row."""
    annotators: Annotators = field(default_factory=list)
    judgments: JudgmentIds = field(default_factory=list)
    items: ItemIds = field(default_factory=list)

    @classmethod
    def from_json(cls, row: JsonObject) -> Self:
        """Raises ValueError."""
        label = row.get("label")
        if not isinstance(label, bool):
            raise ValueError(f"label is {described(label)}, not true or false")
        prompt, completion = messages_in(row, "prompt"), completion_in(row, "completion")
        return cls(prompt, completion, label, tools_in(row), **numbers_in(cls, row))


@dataclass(slots=True)
class ProcessLabelsRow:
    """A trajectory whose turns were judged one by one."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    messages: Messages
    """The chat."""
    tools: Tools = field(default_factory=list)
    id: RowId = ""
    task: TaskKey = ""
    environment: EnvironmentName = ""
    run: TrajectoryId = ""
    policy: PolicyName = ""
    weight: Weight = 1.0
    """Weight of the row."""
    step_labels: list[float | None] = field(default_factory=list)
    """For each turn, that is, each assistant message without `"weight": 0`, −1 bad, 0 neutral, +1 good, or the mean of several judgments; null if nobody judged it."""
    first_error: int | None = None
    """Index of the turn with the first error, from 0; −1 for none; null if nobody looked for it, or annotators disagree."""
    annotators: Annotators = field(default_factory=list)
    judgments: JudgmentIds = field(default_factory=list)
    items: ItemIds = field(default_factory=list)

    @classmethod
    def from_json(cls, row: JsonObject) -> Self:
        """Raises ValueError."""
        messages = completion_in(row, "messages")
        turns = turns_in(messages)
        labels = [None] * turns if row.get("step_labels") is None else row["step_labels"]
        if not isinstance(labels, list) or len(labels) != turns:
            raise ValueError(f"step_labels is {described(labels)}, not a list of {turns}, one for each turn")
        values = [number_in({"a step label": label}, "a step label") for label in labels]
        if any(value is not None and not -1 <= value <= 1 for value in values):
            raise ValueError(f"step_labels is {described(labels)}, with a label outside -1 … 1")
        error = row.get("first_error")
        if error is not None and (type(error) is not int or not -1 <= error < turns):
            raise ValueError(f"first_error is {described(error)}, not a turn from 0 to {turns - 1}, -1 or null")
        return cls(messages, tools_in(row), step_labels=values, first_error=error, **numbers_in(cls, row))
