"""Runs an environment's scripted policies: the generator becomes an agent that sees only the chat."""

import json
import random
from collections.abc import Mapping
from typing import Any

from contract.configs import ScriptedPolicy
from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from trainer.environments.protocol import Environment
from trainer.environments.scripts import Call, Script, ScriptFactory
from trainer.failures import ConfigFailure
from trainer.rollouts.policy import Turn


class ScriptedEngine:
    """Creates scripted agents, each with its own random numbers."""

    away = ""

    def __init__(self, config: ScriptedPolicy, environment: type[Environment]) -> None:
        scripts: Mapping[str, ScriptFactory] = environment.scripts
        if config.script not in scripts:
            raise ConfigFailure(f"policy.script: got {config.script!r}, expected {' or '.join(map(repr, scripts))}")
        self.name = config.name or config.script
        self._factory = scripts[config.script]

    async def ready(self) -> None:
        pass

    def begin(self, task: Task, seed: int) -> "ScriptedAgent":
        return ScriptedAgent(self._factory(task, random.Random(seed)))

    async def close(self) -> None:
        pass


class ScriptedAgent:
    """Turns calls into assistant messages, and tool messages into what the script is sent."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._calls = 0

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        try:
            call = self._script.send(decoded(chat[-1]["content"])) if self._calls else next(self._script)
        except StopIteration as end:
            return Turn({"role": "assistant", "content": end.value})
        self._calls += 1
        return Turn(call_message(call, f"call_{self._calls}"))


def decoded(content: str) -> Any:
    """A tool's result: decoded JSON, or plain text."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def call_message(call: Call, call_id: str) -> Message:
    function = {"name": call.tool, "arguments": call.arguments}
    message: Message = {"role": "assistant", "content": call.say}
    if call.thought:
        message["reasoning_content"] = call.thought
    return {**message, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}
