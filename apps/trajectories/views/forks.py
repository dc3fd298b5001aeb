"""The fork tree of one task's trajectories, or of selected ones."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.http import HtmxRequest
from apps.trajectories import lists, queries
from apps.trajectories.comparison.forks import MAX_TRAJECTORIES, actions_of, divergence_counts, forks_of
from apps.trajectories.models import Task, Trajectory

MAX_TASKS = 8


@require_safe
def task_forks(request: HtmxRequest, task_id: UUID) -> HttpResponse:
    """All trajectories of a task as a tree of their actions."""
    task = get_object_or_404(Task.objects.visible_to(request.member), pk=task_id)
    trajectories = Trajectory.objects.visible_to(request.member).filter(task=task)
    context = {"task": task, "forks": forks_of(trajectories), "outcomes": lists.outcomes_of(task)}
    return render(request, "trajectories/task_forks.html", context)


@require_safe
@at_least(Role.REVIEWER)
def picked_forks(request: HtmxRequest) -> HttpResponse:
    """The trajectories given as `trajectory` (repeatable), one tree per task."""
    picked = Trajectory.objects.visible_to(request.member).filter(pk__in=_ids(request.GET.getlist("trajectory")))
    tasks = list(Task.objects.filter(pk__in=picked.values("task")).order_by("key")[: MAX_TASKS + 1])
    trees = [(task, forks_of(picked.filter(task=task))) for task in tasks[:MAX_TASKS]]
    return render(request, "trajectories/forks.html", {"trees": trees, "is_all": len(tasks) <= MAX_TASKS})


@require_safe
def partings_of(request: HtmxRequest, trajectory_id: UUID) -> JsonResponse:
    """The steps at which other trajectories of the task, equal until then, diverge from this one: pairs of [index, count]."""
    trajectory = get_object_or_404(queries.replayable(request.member), pk=trajectory_id)
    others = queries.other_trajectories(trajectory)
    own_actions, *other_actions = actions_of([trajectory, *others])
    return JsonResponse(
        {"partings": list(divergence_counts(own_actions, other_actions).items()), "others": len(others)}
    )


def _ids(values: list[str]) -> list[UUID]:
    ids = []
    for text in values[:MAX_TRAJECTORIES]:
        with suppress(ValueError):
            ids.append(UUID(text))
    return ids
