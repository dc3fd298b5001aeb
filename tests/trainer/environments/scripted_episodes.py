"""Plays tasks with scripted policies, for the tests of every environment."""

import asyncio
from itertools import islice
from typing import Any

from contract.configs import Budget, ScriptedPolicy
from contract.messages import Message
from contract.trajectory import Task, Trajectory
from trainer.environments.protocol import Environment
from trainer.rollouts.episode import play
from trainer.rollouts.scripted import ScriptedEngine


def call(tool: str, /, **arguments: object) -> Message:
    function = {"name": tool, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


def first_tasks(environment: type[Environment], count: int, **choice: Any) -> list[Task]:
    drawn = environment.tasks(**{"levels": environment.levels, "split": "train", "seed": 0, **choice})
    return list(islice(drawn, count))


def played(environment: type[Environment], task: Task, script: str, seed: int = 0) -> Trajectory:
    agent = ScriptedEngine(ScriptedPolicy(script=script), environment).begin(task, seed)
    return asyncio.run(play(environment(), task, agent, Budget(steps=40)))


def success_share(environment: type[Environment], tasks: list[Task], script: str) -> float:
    done = [played(environment, task, script, seed=index).outcome.success for index, task in enumerate(tasks)]
    return sum(map(bool, done)) / len(done)
