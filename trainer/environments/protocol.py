"""What every environment offers, so that rollouts, training and replay can drive any of them.

An episode is `reset(task)`, then `step(action)` until `done`. An action is an assistant message, with or without tool
calls; an observation is the list of chat messages that it brings. The same task and the same actions always bring
the same observations. A call that fails is an observation, never an exception.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from trainer.environments.scripts import ScriptFactory

Split = Literal["train", "held_out"]
SUCCESS_FROM_REWARD = "success_from_reward"
"""In the `info` of a trajectory: its environment knows no success of its own."""


class Transition(NamedTuple):
    """What one action led to."""

    observation: list[Message]
    reward: float
    done: bool
    info: dict[str, Any]
    """`error`: the text of the first tool call that failed, if any; `subgoals`: name -> reached so far; and what else an
    environment says of a step. Rollouts keep it in the step's `info`."""


class Score(NamedTuple):
    """The check of the final state."""

    reward: float
    success: bool
    subgoals: dict[str, bool]
    is_success_from_reward: bool = False
    """The environment knows no success of its own: `success` says only that the reward is above 0."""


class Environment(Protocol):
    """One episode at a time; make one instance for each episode that runs at once."""

    name: ClassVar[str]
    levels: ClassVar[tuple[str, ...]]
    usual_levels: ClassVar[tuple[str, ...]]
    """What is drawn from where no level is named."""
    scripts: ClassVar[Mapping[str, ScriptFactory]]
    """Scripted policies of different quality, by name."""
    waits: ClassVar[bool]
    """Whether a step waits for another process; rollouts then give each a thread, so that the others go on meanwhile."""

    @property
    def tools(self) -> list[ToolSchema]:
        """What can be called in the task that was reset to."""
        ...

    def reset(self, task: Task) -> list[Message]:
        """Begin the task. Returns the opening messages: system and user."""
        ...

    def step(self, action: Message) -> Transition: ...

    def score(self) -> Score:
        """How the state stands now. What the policy says it has done counts for nothing."""
        ...

    def close(self) -> None:
        """Let go of what the episode holds outside this process. Can be called twice."""
        ...

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        """Tasks without end, the levels in turn. No train task asks for what a held-out task asks for."""
        ...
