"""Brings an environment to a turn of a recorded episode by replaying its actions.

Environments are deterministic, so replaying the actions gives the recorded observations. If not, the record is from another version of the
environment, or was edited, and it's refused.
"""

from dataclasses import dataclass

from contract.messages import Message
from contract.trajectory import Step, Trajectory
from trainer.environments import environment_named
from trainer.environments.protocol import Environment
from trainer.failures import DataFailure

COMPARED = ("role", "content", "tool_call_id")


class Diverged(DataFailure):
    """The environment's answer differs from the recorded one."""


@dataclass(frozen=True)
class Replayed:
    """An environment in the middle of an episode."""

    environment: Environment
    steps: list[Step]
    """The recorded turns that were replayed."""
    context: list[Message]
    """The messages since the last replayed turn."""

    @property
    def chat(self) -> list[Message]:
        """The chat as the policy sees it before its next action."""
        return [message for step in self.steps for message in (*step.context, step.message)] + self.context


def replayed_to(trajectory: Trajectory, step: int, *, environment: Environment | None = None) -> Replayed:
    """Replay `trajectory` to the state before its turn `step` (0 is the beginning, `len(trajectory.steps)` the end).

    environment: an instance to use if the trajectory's task doesn't name a built-in one.
    Raises Diverged if an observation differs from the recorded one, DataFailure if there is no such turn.
    """
    if not 0 <= step <= len(trajectory.steps):
        raise DataFailure(
            f"There is no turn {step} to replay to: the trajectory has {len(trajectory.steps)} turns.",
            advice=f"Give a turn from 0 to {len(trajectory.steps)}.",
        )
    world = environment or environment_named(trajectory.task.environment)()
    recorded = [*(step.context for step in trajectory.steps), trajectory.closing]
    context = check(world.reset(trajectory.task), recorded[0], at=0)
    for number, done in enumerate(trajectory.steps[:step], start=1):
        if done.info.get("unreadable"):  # it never reached the environment, so the state didn't change
            context = recorded[number]
            continue
        context = check(world.step(done.message).observation, recorded[number], at=number)
    return Replayed(world, trajectory.steps[:step], context)


def check(observed: list[Message], recorded: list[Message], *, at: int) -> list[Message]:
    """The recorded messages, if they match the observation. Raises Diverged."""
    if [comparable(message) for message in observed] == [comparable(message) for message in recorded]:
        return recorded
    differs = next(
        (pair for pair in zip(observed, recorded, strict=False) if comparable(pair[0]) != comparable(pair[1])), None
    )
    answered = f"{len(observed)} messages" if differs is None else repr(differs[0].get("content"))
    expected = f"{len(recorded)}" if differs is None else repr(differs[1].get("content"))
    raise Diverged(
        f"Replaying diverges before turn {at}: the environment answers {answered[:200]}, recorded is {expected[:200]}.",
        advice="The environment or the record has changed since; roll the task out again.",
    )


def comparable(message: Message) -> tuple[object, ...]:
    """The part of a message that is compared; a trajectory from the database may have additional empty fields."""
    return tuple(message.get(key) or "" for key in COMPARED)
