"""Queries of the trajectory pages: light outlines, windows of whole steps, and a search inside a trajectory."""

from __future__ import annotations

from typing import NamedTuple

from apps.accounts.models import Membership
from apps.trajectories.models import Original, Step, Trajectory, TrajectoryQuerySet
from apps.trajectories.rendering.heads import LIGHT, StepHead, head_from
from apps.trajectories.rendering.messages import Messages

WINDOW = 8
"""Steps opened together: about two screens."""

MAX_WINDOW = 40
MAX_OTHERS = 30


class Window(NamedTuple):
    """Neighboring steps, with the context beyond them that `step_views` needs."""

    steps: list[Step]
    previous_kind: str
    following: Messages
    is_end: bool


def replayable(member: Membership) -> TrajectoryQuerySet:
    """Trajectories for replay, with their related objects."""
    trajectories: TrajectoryQuerySet = Trajectory.objects.visible_to(member)
    return trajectories.select_related(
        "task", "policy", "import_batch", "outcome_batch", "rollout_batch", "parent"
    ).defer("tools", "closing", "info", "task__initial_state", "task__success_check")


def heads_of(trajectory: Trajectory) -> list[StepHead]:
    """Every step as one line."""
    return [head_from(*row) for row in Step.objects.filter(trajectory=trajectory).order_by("index").values_list(*LIGHT)]


def window_of(trajectory: Trajectory, first: int, last: int) -> Window:
    """Steps `first` to `last` (inclusive; at most MAX_WINDOW). Reads only the bodies of these."""
    first = max(0, first)
    last = min(last, first + MAX_WINDOW - 1, trajectory.step_count - 1)
    steps_of_trajectory = Step.objects.filter(trajectory=trajectory)
    steps = list(steps_of_trajectory.filter(index__gte=first, index__lte=last).order_by("index"))
    is_end = last >= trajectory.step_count - 1
    before = steps_of_trajectory.filter(index=first - 1).values_list("kind", flat=True).first() if first else ""
    return Window(steps, before or "", following(trajectory, last), is_end)


def following(trajectory: Trajectory, index: int) -> Messages:
    """The messages after a step: the next step's context, or the trajectory's closing messages."""
    if index >= trajectory.step_count - 1:
        return trajectory.closing or []
    context = Step.objects.filter(trajectory=trajectory, index=index + 1).values_list("context", flat=True).first()
    return context if isinstance(context, list) else []


def other_trajectories(trajectory: Trajectory) -> list[Trajectory]:
    """The newest other trajectories of the same task."""
    trajectories = Trajectory.objects.filter(task=trajectory.task_id, workspace=trajectory.workspace_id).exclude(
        pk=trajectory.pk
    )
    return list(trajectories.for_list().order_by("-pk")[:MAX_OTHERS])


def has_original(trajectory: Trajectory) -> bool:
    return Original.objects.filter(pk=trajectory.pk).exists()
