"""Brings an environment to where it stood at a turn of a recorded episode, by doing again what was done.

Environments are deterministic, so the recorded actions bring the recorded observations, or the record is of something else: another
version of the environment, a world that answers differently now, a trajectory that was edited. Then it is refused.
"""

from dataclasses import dataclass

from contract.messages import Message
from contract.trajectory import Step, Trajectory
from trainer.environments import environment_named
from trainer.environments.protocol import Environment
from trainer.failures import DataFailure

COMPARED = ("role", "content", "tool_call_id")


class Diverged(DataFailure):
    """The environment answered other than it is recorded to have done."""


@dataclass(frozen=True)
class Replayed:
    """An environment in the middle of an episode."""

    environment: Environment
    steps: list[Step]
    """The recorded turns that were done again."""
    context: list[Message]
    """What has arrived since the last of them."""

    @property
    def chat(self) -> list[Message]:
        """What the policy sees before it acts next."""
        return [message for step in self.steps for message in (*step.context, step.message)] + self.context


def replayed_to(trajectory: Trajectory, step: int, *, environment: Environment | None = None) -> Replayed:
    """Where `trajectory` stood before its turn `step` (0 is the beginning, `len(trajectory.steps)` the end).

    environment: an instance to use, where the trajectory's task names none that is built in.
    Raises Diverged where an observation differs from the recorded one, DataFailure where there is no such turn.
    """
    if not 0 <= step <= len(trajectory.steps):
        raise DataFailure(
            f"There is no turn {step} to replay to: the trajectory has {len(trajectory.steps)} turns.",
            advice=f"Give a turn from 0 to {len(trajectory.steps)}.",
        )
    world = environment or environment_named(trajectory.task.environment)()
    recorded = [*(each.context for each in trajectory.steps), trajectory.closing]
    context = check(world.reset(trajectory.task), recorded[0], at=0)
    for number, done in enumerate(trajectory.steps[:step], start=1):
        if done.info.get("unreadable"):  # it never reached the environment, which therefore did not move
            context = recorded[number]
            continue
        context = check(world.step(done.message).observation, recorded[number], at=number)
    return Replayed(world, trajectory.steps[:step], context)


def check(observed: list[Message], recorded: list[Message], *, at: int) -> list[Message]:
    """The recorded messages, if these are what was observed. Raises Diverged."""
    if [essence(message) for message in observed] == [essence(message) for message in recorded]:
        return recorded
    differs = next(
        (pair for pair in zip(observed, recorded, strict=False) if essence(pair[0]) != essence(pair[1])), None
    )
    told = f"{len(observed)} messages" if differs is None else repr(differs[0].get("content"))
    expected = f"{len(recorded)}" if differs is None else repr(differs[1].get("content"))
    raise Diverged(
        f"Replaying diverges before turn {at}: the environment answers {told[:200]}, recorded is {expected[:200]}.",
        advice="The environment or the record has changed since; roll the task out again.",
    )


def essence(message: Message) -> tuple[object, ...]:
    """What makes two observations the same; a trajectory that went through a database may have gained empty fields."""
    return tuple(message.get(key) or "" for key in COMPARED)
