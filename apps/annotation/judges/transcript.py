"""Trajectories and tasks as text for a judge's prompt; long ones are cut in the middle."""

from apps.trajectories.models import Step, Trajectory
from contract import fences
from contract.messages import as_context
from contract.transcripts import message_lines, shortened


def transcript(trajectory: Trajectory, *, max_length: int) -> str:
    """At most about `max_length` characters; the text can't close its surrounding fence."""
    lines: list[str] = []
    steps = Step.objects.filter(trajectory=trajectory).order_by("index").values_list("context", "message")
    for context, message in steps:
        lines += [line for given in context for line in message_lines(as_context(given))]
        lines += message_lines(message)
    lines += [line for message in trajectory.closing for line in message_lines(as_context(message))]
    return quoted("\n".join(lines), max_length=max_length)


def quoted(text: str, *, max_length: int) -> str:
    """Text that can neither close nor open a fence; long text is cut in the middle."""
    return shortened(fences.inside(text, "run"), max_length=max_length)
