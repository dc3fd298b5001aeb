"""Continuations as jobs: what the engine must know of them."""

from django.urls import reverse

from apps.annotation.models import Continuation
from apps.jobs.kinds import Kind, register
from apps.policies.models import Policy

LOADED_TASK, SERVED_TASK = "continuations.run", "served_continuations.run"


def _task(continuation: Continuation) -> str:
    """A served model is asked from any worker, so that nobody at the desk waits behind a training run."""
    return SERVED_TASK if continuation.policy.kind == Policy.Kind.ENDPOINT else LOADED_TASK


CONTINUATIONS = register(
    Kind(
        name="continuations",
        noun="continuation",
        label="Continuation",
        model=Continuation,
        task=_task,
        title=lambda continuation: f"{continuation.policy.name} at step {continuation.index + 1}",
        url=lambda continuation: reverse(
            "trajectories:step", args=[continuation.trajectory_id, continuation.index + 1]
        ),
        related=("policy__endpoint", "trajectory__task", "trajectory__policy"),
        listed_with=("policy",),
    )
)
