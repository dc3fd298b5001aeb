"""The rows of a data file, checked one by one: what REST exports, what TRL takes.

A turn is an assistant message. Columns after the first ones are optional, more columns do no harm, and `tools` is a list of schemas or its JSON.

- preference: {"prompt": [messages], "chosen": [messages], "rejected": [messages], "tools", "margin": number, "strength": number, "weight": number,
  "soft_label": 0 … 1, "label_weight": number, "tie": bool, "shown_left": 0 … 1}. A step preference is one whose sides are a single turn each.
- demonstration: {"messages": [messages], "tools", "train_turns": [bool, one a turn]}, or {"prompt", "completion", "tools"} where only the
  completion is to be learnt, a preference row (its chosen side), or a trajectory in rich form.
- unpaired: {"prompt": [messages], "completion": [messages], "label": bool, "tools", "weight": number}, a preference row (both sides), or a
  trajectory in rich form (by its success).
- steps: {"messages": [messages], "tools", "step_labels": [number or null, one a turn], "first_error": turn, -1 or null, "weight": number}, or a
  trajectory in rich form (by its environment's rewards and errors).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from contract.messages import Message, ToolSchema
from contract.trajectory import FORMAT, Trajectory
from contract.values import JsonObject
from trainer.records import bad_row, read_lines

ROLES = ("system", "developer", "user", "assistant", "tool")
Row = TypeVar("Row")


@dataclass(frozen=True)
class PreferenceRow:
    """Two ways to go on from the same prompt, the better one first."""

    prompt: list[Message]
    chosen: list[Message]
    rejected: list[Message]
    tools: list[ToolSchema] = field(default_factory=list)
    margin: float | None = None
    """The least difference of rewards to ask for. Reward models use it."""
    weight: float = 1.0
    """How much the row counts."""
    soft_label: float | None = None
    """How likely the chosen one is the better one, where several judgements were put together."""
    label_weight: float = 1.0
    """How much the row counts by its soft label."""
    strength: float = 0.0
    """By how many grades the chosen one is better, as annotators see it."""
    tie: bool = False
    """Neither is better: `chosen` is only the one that comes first."""
    shown_left: float | None = None
    """The share of its judgements in which the chosen one stood on the left."""


@dataclass(frozen=True)
class Demonstration:
    """A way to go on that is worth imitating."""

    prompt: list[Message]
    """Not learnt from, its assistant messages included."""
    completion: list[Message]
    tools: list[ToolSchema] = field(default_factory=list)
    train_turns: list[bool] | None = None
    """For each turn of the completion whether it is learnt; None learns all."""


@dataclass(frozen=True)
class Unpaired:
    """A way to go on that is desirable, or is not."""

    prompt: list[Message]
    completion: list[Message]
    desirable: bool
    tools: list[ToolSchema] = field(default_factory=list)
    weight: float = 1.0
    """How much the row counts."""


@dataclass(frozen=True)
class JudgedSteps:
    """A run whose turns were judged one by one."""

    messages: list[Message]
    labels: list[float | None]
    """One a turn: -1 bad, 0 neutral, +1 good, or a mean of several judgements; None where nobody judged."""
    tools: list[ToolSchema] = field(default_factory=list)
    first_error: int | None = None
    """The turn of the first error, from 0; -1 where there is none; None where nobody looked for it."""
    weight: float = 1.0
    """How much the row counts."""


def read_preferences(path: Path) -> list[PreferenceRow]:
    """Raises DataFailure for the first row that cannot be used."""
    return list(parsed(path, preference_from_json, "prompt, chosen and rejected, each a list of messages"))


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Raises DataFailure for the first row that cannot be used."""
    return list(parsed(path, demonstration_from_json, "messages, or prompt and completion, or a trajectory"))


def read_unpaired(path: Path) -> list[Unpaired]:
    """A preference row becomes two. Raises DataFailure for the first row that cannot be used."""
    expected = "prompt, completion and label, or prompt, chosen and rejected, or a trajectory"
    return [row for rows in parsed(path, unpaired_from_json, expected) for row in rows]


def read_judged_steps(path: Path) -> list[JudgedSteps]:
    """Raises DataFailure for the first row that cannot be used."""
    return list(parsed(path, judged_steps_from_json, "messages and step_labels or first_error, or a trajectory"))


def parsed(path: Path, parse: Callable[[JsonObject], Row], expected: str) -> Iterator[Row]:
    for number, row in read_lines(path):
        try:
            yield parse(row)
        except ValueError as error:
            raise bad_row(path, number, str(error), expected) from None


def preference_from_json(row: JsonObject) -> PreferenceRow:
    """Raises ValueError."""
    margin = number_in(row, "margin")
    return PreferenceRow(
        prompt=messages_in(row, "prompt"),
        chosen=completion_in(row, "chosen"),
        rejected=completion_in(row, "rejected"),
        tools=tools_in(row),
        margin=margin,
        weight=weight_in(row),
        soft_label=share_in(row, "soft_label"),
        label_weight=weight_in(row, "label_weight"),
        strength=number_in(row, "strength") or 0.0,
        tie=row.get("tie") is True,
        shown_left=share_in(row, "shown_left"),
    )


def demonstration_from_json(row: JsonObject) -> Demonstration:
    """Raises ValueError."""
    if row.get("format") == FORMAT:
        trajectory = Trajectory.from_json(row)
        return Demonstration([], completion_in({"steps": trajectory.messages()}, "steps"), trajectory.tools)
    if "messages" in row:
        messages = completion_in(row, "messages")
        return Demonstration([], messages, tools_in(row), train_turns_in(row, messages))
    if "chosen" in row:
        # A preference row: the better run is worth imitating, with the steps that both runs share and so are in the prompt.
        return Demonstration([], messages_in(row, "prompt") + completion_in(row, "chosen"), tools_in(row))
    return Demonstration(messages_in(row, "prompt"), completion_in(row, "completion"), tools_in(row))


def train_turns_in(row: JsonObject, messages: list[Message]) -> list[bool] | None:
    flags = row.get("train_turns")
    turns = sum(message["role"] == "assistant" for message in messages)
    if flags is None:
        return None
    if not isinstance(flags, list) or len(flags) != turns or not all(isinstance(flag, bool) for flag in flags):
        raise ValueError(f"train_turns is {describe(flags)}, not a list of {turns} times true or false")
    if not any(flags):
        raise ValueError("train_turns is false for every turn, so there is nothing to learn")
    return flags


def unpaired_from_json(row: JsonObject) -> list[Unpaired]:
    """Raises ValueError."""
    if row.get("format") == FORMAT:
        return [unpaired_by_outcome(Trajectory.from_json(row))]
    if "chosen" in row:
        pair = preference_from_json(row)
        sides = [] if pair.tie else [(pair.chosen, True), (pair.rejected, False)]
        return [Unpaired(pair.prompt, side, desirable, pair.tools, pair.weight) for side, desirable in sides]
    if not isinstance(row.get("label"), bool):
        raise ValueError(f"label is {describe(row.get('label'))}, not true or false")
    prompt, completion = messages_in(row, "prompt"), completion_in(row, "completion")
    return [Unpaired(prompt, completion, row["label"], tools_in(row), weight_in(row))]


def unpaired_by_outcome(run: Trajectory) -> Unpaired:
    """Desirable where the run succeeded. Raises ValueError where nobody knows, or it has no turn."""
    if run.outcome.success is None or not run.steps:
        raise ValueError("the trajectory has no turn, or its outcome does not say whether it succeeded")
    prompt = run.steps[0].context
    completion = run.messages()[len(prompt) :]
    return Unpaired(prompt, completion, run.outcome.success, run.tools)


def judged_steps_from_json(row: JsonObject) -> JudgedSteps:
    """Raises ValueError."""
    if row.get("format") == FORMAT:
        return judged_by_environment(Trajectory.from_json(row))
    messages = completion_in(row, "messages")
    turns = sum(message["role"] == "assistant" for message in messages)
    labels = row.get("step_labels")
    if labels is None:
        labels = [None] * turns
    if not isinstance(labels, list) or len(labels) != turns:
        raise ValueError(f"step_labels is {describe(labels)}, not a list of {turns}, one for each assistant message")
    values = [number_in({"a step label": label}, "a step label") for label in labels]
    if any(value is not None and not -1 <= value <= 1 for value in values):
        raise ValueError(f"step_labels is {describe(labels)}, with a label outside -1 … 1")
    first_error = row.get("first_error")
    if first_error is not None and (type(first_error) is not int or not -1 <= first_error < turns):
        raise ValueError(f"first_error is {describe(first_error)}, not a turn from 0 to {turns - 1}, -1 or null")
    return JudgedSteps(messages, values, tools_in(row), first_error, weight_in(row))


def judged_by_environment(run: Trajectory) -> JudgedSteps:
    """Turns judged by what came of them: bad where a call failed or the environment's reward fell, good where it rose, else neutral."""
    labels: list[float | None] = []
    for step in run.steps:
        reward = step.reward or 0.0
        labels.append(-1.0 if step.error is not None or reward < 0 else 1.0 if reward > 0 else 0.0)
    first_error = next((turn for turn, label in enumerate(labels) if label == -1.0), -1)
    messages = completion_in({"steps": run.messages()}, "steps")
    return JudgedSteps(messages, labels, run.tools, first_error)


def completion_in(row: JsonObject, name: str) -> list[Message]:
    messages = messages_in(row, name)
    if not any(message["role"] == "assistant" for message in messages):
        raise ValueError(f"{name} has no assistant message, so there is nothing to learn")
    return messages


def messages_in(row: JsonObject, name: str) -> list[Message]:
    messages = row.get(name)
    if not isinstance(messages, list) or not messages:
        given = f"is {describe(messages)}" if name in row else "is missing"
        raise ValueError(f"{name} {given}")
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            raise ValueError(f"{name}[{index}] has the role {role!r}, not one of {', '.join(ROLES)}")
        for tool_call in message.get("tool_calls") or []:
            function = tool_call.get("function") if isinstance(tool_call, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                raise ValueError(f"{name}[{index}] has a tool call without function.name")
    return messages


def tools_in(row: JsonObject) -> list[ToolSchema]:
    tools = row.get("tools") or []
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except ValueError:
            raise ValueError("tools is text but no JSON") from None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError(f"tools is {describe(tools)}, not a list of schemas")
    return tools


def weight_in(row: JsonObject, name: str = "weight") -> float:
    weight = number_in(row, name)
    if weight is not None and weight < 0:
        raise ValueError(f"{name} is {weight:g}, not 0 or more")
    return 1.0 if weight is None else weight


def share_in(row: JsonObject, name: str) -> float | None:
    share = number_in(row, name)
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"{name} is {share:g}, not from 0 to 1")
    return share


def number_in(row: JsonObject, name: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{name} is {describe(value)}, not a number")
    return float(value)


def describe(value: Any) -> str:
    text = json.dumps(value, default=str)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
