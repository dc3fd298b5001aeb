"""The interface of environments, used by rollouts, training, and replay.

An episode is `reset(task)`, then `step(action)` until `done`. An action is an assistant message, with or without tool
calls; an observation is the list of chat messages that it results in. The same task and actions always give
the same observations. A failed call is an observation, never an exception.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from trainer.environments.scripts import ScriptFactory

Split = Literal["train", "held_out"]
SUCCESS_FROM_REWARD = "success_from_reward"
"""In a trajectory's `info`: the environment doesn't define success."""


class Transition(NamedTuple):
    """The result of one action."""

    observation: list[Message]
    reward: float
    done: bool
    info: dict[str, Any]
    """`error`: the text of the first tool call that failed, if any; `subgoals`: name -> reached so far; and anything else an
    environment reports. Rollouts keep it in the step's `info`."""


class Score(NamedTuple):
    """The check of the final state."""

    reward: float
    success: bool
    subgoals: dict[str, bool]
    is_success_from_reward: bool = False
    """The environment doesn't define success: `success` only means that the reward is above 0."""


class Environment(Protocol):
    """Plays one episode at a time; concurrent episodes need separate instances."""

    name: ClassVar[str]
    levels: ClassVar[tuple[str, ...]]
    usual_levels: ClassVar[tuple[str, ...]]
    """Default levels."""
    scripts: ClassVar[Mapping[str, ScriptFactory]]
    """Scripted policies of different quality, by name."""
    waits: ClassVar[bool]
    """Whether a step waits for another process; rollouts then use a thread per episode, so that others continue meanwhile."""

    @property
    def tools(self) -> list[ToolSchema]:
        """The tools of the current task."""
        ...

    def reset(self, task: Task) -> list[Message]:
        """Start the task. Returns the opening messages: system and user."""
        ...

    def step(self, action: Message) -> Transition: ...

    def score(self) -> Score:
        """Score the current state. The policy's claims don't count."""
        ...

    def close(self) -> None:
        """Release the episode's resources outside this process. Idempotent."""
        ...

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        """An endless stream of tasks, cycling through the levels. No training task makes the same request as a held-out one."""
        ...
