"""Whether the policy's output is well formed (the format reward of ToolRL, Qian et al., 2025, arXiv 2504.13958, section 3.3)."""

import json
from collections.abc import Sequence
from typing import Any

from contract.messages import ToolSchema
from contract.trajectory import Step, Trajectory
from trainer.rewards.protocol import Score


class Format:
    """1 for a well-formed turn, otherwise 0; the trajectory has their mean."""

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        return [self._score(trajectory) for trajectory in trajectories]

    def _score(self, trajectory: Trajectory) -> Score:
        turns = [0.0 if problem_of(step, trajectory.tools) else 1.0 for step in trajectory.steps]
        return Score(sum(turns) / len(turns) if turns else None, turns)


def problem_of(step: Step, tools: Sequence[ToolSchema]) -> str:
    """The format problem of a turn; "" if there is none. A call that fails for other reasons is well formed."""
    calls = step.message.get("tool_calls") or []
    if not calls and step.error is not None:
        return step.error  # only an unparsable call leaves an error without a call
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    return next((problem for call in calls if (problem := problem_of_call(call, schemas))), "")


def problem_of_call(call: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> str:
    function = call.get("function") or {}
    name = function.get("name")
    if name not in schemas:
        return f"there is no tool {name!r}"
    arguments = arguments_of(function)
    if arguments is None:
        return "the arguments are no JSON object"
    schema = schemas[name]
    if missing := [required for required in schema.get("required", []) if required not in arguments]:
        return f"missing argument {', '.join(missing)}"
    properties = schema.get("properties")
    if properties is not None and (unknown := sorted(arguments.keys() - properties.keys())):
        return f"unknown argument {', '.join(unknown)}"
    return ""


def arguments_of(function: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments as an object, also from JSON text; None otherwise."""
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, dict) else None
