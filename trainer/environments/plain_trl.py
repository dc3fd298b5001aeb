"""Environments for TRL's own GRPO and RLOO trainers, for training without Retrace.

    Desk = trl_environment(Office)
    GRPOTrainer(environment_factory=Desk, train_dataset=Dataset.from_list(trl_rows(Office, tasks)), …)

TRL calls tools one by one as methods of the class, resets with the columns of a row, and takes the reward from the final state. Retrace's own runs don't
use this: they play whole messages, keep every turn's tokens, and reward turns.
"""

import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from contract.trajectory import Task
from trainer.environments.tool_environment import ToolEnvironment
from trainer.environments.tools import Toolset


def trl_environment(environment: type[ToolEnvironment], toolset: Toolset | None = None) -> type:
    """A class for `environment_factory`. toolset: the training tasks' tools, if tasks differ in their tools."""
    functions = (toolset or environment.toolset).functions
    methods = {name: calling(function) for name, function in functions.items()}
    return type(environment.__name__, (TrlEnvironment,), {"_environment_class": environment, **methods})


def trl_rows(environment: type[ToolEnvironment], tasks: Iterable[Task]) -> list[dict[str, Any]]:
    """Rows of a training set: the opening messages, and the task as JSON text, since Arrow would merge the keys of different tasks."""
    return [{"prompt": environment().reset(task), "task": json.dumps(asdict(task))} for task in tasks]


class TrlEnvironment:
    """Plays one rollout at a time. TRL uses the names without an underscore."""

    _environment_class: type[ToolEnvironment]

    def __init__(self) -> None:
        self._environment = self._environment_class()

    def reset(self, task: str, **_: object) -> None:
        """The opening messages are already in the prompt."""
        self._environment.reset(Task(**json.loads(task)))

    def get_reward(self) -> float:
        return self._environment.score().reward


def calling(function: Callable[..., Any]) -> Callable[..., str]:
    """The tool as a method with the same signature and docstring; it returns errors as results."""

    @functools.wraps(function)
    def method(self: TrlEnvironment, /, *args: Any, **arguments: Any) -> str:
        bound_arguments = {**dict(zip(list(function.__annotations__), args, strict=False)), **arguments}
        call = {"id": "call", "type": "function", "function": {"name": function.__name__, "arguments": bound_arguments}}
        transition = self._environment.step({"role": "assistant", "content": "", "tool_calls": [call]})
        return str(transition.observation[0]["content"])

    return method
