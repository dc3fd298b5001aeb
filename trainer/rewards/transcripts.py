"""Rollouts as text for a judge."""

from contract.trajectory import Trajectory
from contract.transcripts import message_lines


def lines_of(trajectory: Trajectory) -> list[str]:
    """The task, then message by message."""
    return [
        f"TASK: {trajectory.task.instruction}",
        *(line for message in trajectory.chat() for line in message_lines(message)),
    ]
