"""The rows of a data file, checked one by one: what REST exports, what TRL takes.

A preference row: {"prompt": [messages], "chosen": [messages], "rejected": [messages], "tools": [schemas] or their JSON,
"margin": number, "weight": number}, the last three optional. A demonstration: {"messages": [messages], "tools": …}, or {"prompt": …,
"completion": …, "tools": …} where only the completion is to be learnt, a preference row (its chosen side), or a trajectory in rich form. Judged
steps: {"messages": [messages], "tools": …, "step_labels": [number or null, one a turn], "first_error": turn, -1 or null, "weight": number}, or a
trajectory in rich form, whose environment then judges. A turn is an assistant message. More columns do no harm.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from trainer.records import FORMAT, JsonObject, Message, ToolSchema, Trajectory, bad_row, read_lines

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
    """By how much the chosen one is better, on the annotators' scale. Reward models use it."""
    weight: float = 1.0
    """How much the row counts."""


@dataclass(frozen=True)
class Demonstration:
    """A way to go on that is worth imitating."""

    prompt: list[Message]
    """Not learnt from, its assistant messages included."""
    completion: list[Message]
    tools: list[ToolSchema] = field(default_factory=list)


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
    )


def demonstration_from_json(row: JsonObject) -> Demonstration:
    """Raises ValueError."""
    if row.get("format") == FORMAT:
        trajectory = Trajectory.from_json(row)
        return Demonstration([], completion_in({"steps": trajectory.messages}, "steps"), trajectory.tools)
    if "messages" in row:
        return Demonstration([], completion_in(row, "messages"), tools_in(row))
    if "chosen" in row:
        # A preference row: the better run is worth imitating, with the steps that both runs share and so are in the prompt.
        return Demonstration([], messages_in(row, "prompt") + completion_in(row, "chosen"), tools_in(row))
    return Demonstration(messages_in(row, "prompt"), completion_in(row, "completion"), tools_in(row))


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
    messages = completion_in({"steps": run.messages}, "steps")
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


def weight_in(row: JsonObject) -> float:
    weight = number_in(row, "weight")
    if weight is not None and weight < 0:
        raise ValueError(f"weight is {weight:g}, not 0 or more")
    return 1.0 if weight is None else weight


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
