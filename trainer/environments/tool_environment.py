"""Base class of environments in which policies act through tools.

A custom environment defines what its tools act on (`begin`), how the state is scored (`score`), and its tasks
(`tasks`); turns, rewards, and errors are handled here.
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
    """One episode of tool calls. A message without calls ends it; a step's reward is the increase of the score."""

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
        """Set up `world` for the task (and `toolset`, if tasks differ in their tools). Returns the opening messages. Raises DataFailure."""

    @abstractmethod
    def score(self) -> Score:
        """Score the current state."""

    @classmethod
    @abstractmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        """An endless stream of tasks, cycling through the levels. No training task makes the same request as a held-out one."""

    def over(self) -> bool:
        """Whether the last call has ended the episode."""
        return False

    def details(self) -> dict[str, Any]:
        """Extra details of the last step to record."""
        return {}

    def close(self) -> None:  # noqa: B027  # nothing to do is the usual case
        """Nothing to release."""

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
