"""Compares tools, arguments, and order with calls that solve the task.

After ToolRL (Qian et al., 2025, arXiv 2504.13958: names, parameter names and values scored apart) and RLTR (2025, arXiv 2508.19598: the
plan of calls is rewarded rather than the final answer). The reference is `success_check["calls"]` ([{"tool", "arguments"}]) if the task
states it, otherwise the calls of the environment's expert script. Left out: ToolRL's dynamic scaling of the reward over training, and
references with alternatives: a valid alternative solution scores lower, so keep this term's weight well below the outcome's.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from contract.messages import Message
from contract.trajectory import Task, Trajectory
from trainer.environments import environment_named
from trainer.environments.scripts import Call
from trainer.failures import RunFailure
from trainer.rewards.format import arguments_of
from trainer.rewards.protocol import Score
from trainer.rollouts.scripted import call_message, decoded

KEPT = 4096
"""Tasks whose reference calls are cached."""


class ToolUse:
    """The mean of three shares; a turn has the agreement of its calls with their counterparts in the reference."""

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        return [score_calls(trajectory, reference_calls(trajectory.task)) for trajectory in trajectories]


@dataclass(frozen=True)
class Agreement:
    """Agreement of the calls with the reference: three shares, 0 … 1."""

    tools: float
    """Multiset intersection over union of the names."""
    arguments: float
    """Agreement of calls with their counterparts in order, as a share of the reference."""
    order: float
    """Longest common subsequence of names, as a share of the longer list."""
    of_call: list[float]
    """Agreement of each call with its counterpart; 0 without one."""

    @property
    def value(self) -> float:
        return (self.tools + self.arguments + self.order) / 3


def score_calls(trajectory: Trajectory, reference: Sequence[Call] | None) -> Score:
    """No score if there is no reference."""
    if not reference:
        return Score(None)
    calls_made: list[Call] = []
    turn_of: list[int] = []
    for turn, step in enumerate(trajectory.steps):
        calls = calls_in(step.message)
        calls_made += calls
        turn_of += [turn] * len(calls)
    agreement = compare(calls_made, reference)
    turns = [0.0] * len(trajectory.steps)
    for turn, value in zip(turn_of, agreement.of_call, strict=True):
        turns[turn] += value / turn_of.count(turn)
    return Score(
        agreement.value, turns, {"tools": agreement.tools, "arguments": agreement.arguments, "order": agreement.order}
    )


def compare(calls: Sequence[Call], reference: Sequence[Call]) -> Agreement:
    """Pure. Two empty lists agree."""
    names, expected = Counter(call.tool for call in calls), Counter(call.tool for call in reference)
    either = (names | expected).total()
    of_call = align([[likeness(call, other) for other in reference] for call in calls])
    same_name = align([[float(call.tool == other.tool) for other in reference] for call in calls])
    return Agreement(
        tools=(names & expected).total() / either if either else 1.0,
        arguments=sum(of_call) / len(reference) if reference else float(not calls),
        order=sum(same_name) / max(len(calls), len(reference)) if calls or reference else 1.0,
        of_call=of_call,
    )


def likeness(call: Call, other: Call) -> float:
    """0 for different tools; otherwise the share of parameters in either call with the same value in both. 1 for equal calls."""
    if call.tool != other.tool:
        return 0.0
    either = call.arguments.keys() | other.arguments.keys()
    if not either:
        return 1.0
    same = sum(
        name in call.arguments and name in other.arguments and equal(call.arguments[name], other.arguments[name])
        for name in either
    )
    return (1 + same) / (1 + len(either))


def equal(value: Any, other: Any) -> bool:
    """Ignores case and surrounding whitespace of text, as the tools do."""
    if isinstance(value, str) and isinstance(other, str):
        return value.strip().casefold() == other.strip().casefold()
    return bool(value == other)


def align(likenesses: list[list[float]]) -> list[float]:
    """The order-preserving matching with the greatest sum: each row's value, 0 without a partner (Needleman and Wunsch, 1970, without gap costs)."""
    rows = len(likenesses)
    columns = len(likenesses[0]) if rows else 0
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            matched = likenesses[row][column] + best[row + 1][column + 1]
            best[row][column] = max(matched, best[row + 1][column], best[row][column + 1])
    values = [0.0] * rows
    row = column = 0
    while row < rows and column < columns:
        if best[row][column] == best[row + 1][column]:
            row += 1
        elif best[row][column] == best[row][column + 1]:
            column += 1
        else:
            values[row] = likenesses[row][column]
            row, column = row + 1, column + 1
    return values


def calls_in(message: Message) -> list[Call]:
    """The calls of a turn; unparsable arguments count as none."""
    functions = [call.get("function") or {} for call in message.get("tool_calls") or []]
    return [Call(str(function.get("name")), arguments_of(function) or {}) for function in functions]


def reference_calls(task: Task) -> list[Call] | None:
    """The calls that solve the task, or None if unknown."""
    stated = task.success_check.get("calls")
    if stated is not None:
        return [Call(str(call["tool"]), call.get("arguments") or {}) for call in stated]
    return expert_calls(json.dumps(asdict(task)))


@lru_cache(maxsize=KEPT)
def expert_calls(encoded: str) -> list[Call] | None:
    """The calls of the expert script of the task's environment; None if there is no script. `encoded` is the task as JSON."""
    task = Task(**json.loads(encoded))
    try:
        environment_class = environment_named(task.environment)
        if "expert" not in environment_class.scripts:
            return None
        environment = environment_class()
        environment.reset(task)
    except RunFailure:  # not a built-in environment, or an invalid task
        return None
    script = environment_class.scripts["expert"](task, random.Random(0))
    calls: list[Call] = []
    sent: Any = None
    while True:
        try:
            call = script.send(sent)
        except StopIteration:
            return calls
        calls.append(call)
        observation = environment.step(call_message(call, f"call_{len(calls)}")).observation
        sent = decoded(observation[-1]["content"])
