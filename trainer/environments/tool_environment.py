"""The common part of environments in which one acts by calling tools.

An environment of one's own says what its tools act on (`begin`), how well that stands (`score`) and which tasks there are
(`tasks`); turns, rewards and errors are dealt with here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from trainer.environments.protocol import Score, Split, Transition
from trainer.environments.scripts import ScriptFactory
from trainer.environments.tools import Toolset


class ToolEnvironment(ABC):
    """One episode of tool calls. A message without calls ends it; a step's reward is by how much the score has risen."""

    name: ClassVar[str]
    levels: ClassVar[tuple[str, ...]]
    usual_levels: ClassVar[tuple[str, ...]]
    scripts: ClassVar[Mapping[str, ScriptFactory]] = {}
    waits: ClassVar[bool] = False

    toolset: Toolset
    world: Any
    """What the tools act on: an instance of the class that the toolset was made from."""
    _reward: float

    @abstractmethod
    def begin(self, task: Task) -> list[Message]:
        """Set `world` up for the task (and `toolset`, where tasks differ in tools). Returns the opening messages. Raises DataFailure."""

    @abstractmethod
    def score(self) -> Score:
        """How the world stands now."""

    @classmethod
    @abstractmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        """Tasks without end, the levels in turn. No train task asks for what a held-out task asks for."""

    def over(self) -> bool:
        """Whether the last call has ended the episode."""
        return False

    def details(self) -> dict[str, Any]:
        """What else is worth keeping of the step that was just taken."""
        return {}

    def close(self) -> None:  # noqa: B027  # nothing to do is the usual case
        """Nothing outside this process is held."""

    @property
    def tools(self) -> list[ToolSchema]:
        return self.toolset.schemas

    def reset(self, task: Task) -> list[Message]:
        opening = self.begin(task)
        self._reward = self.score().reward
        return opening

    def step(self, action: Message) -> Transition:
        answers = [self.toolset.answer(self.world, tool_call) for tool_call in action.get("tool_calls") or []]
        error = next((answer.error for answer in answers if answer.error is not None), None)
        now = self.score()
        reward, self._reward = now.reward - self._reward, now.reward
        info = {**({"error": error} if error is not None else {}), "subgoals": now.subgoals, **self.details()}
        return Transition([answer.message for answer in answers], round(reward, 4), not answers or self.over(), info)
