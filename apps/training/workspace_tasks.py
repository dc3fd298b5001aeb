"""Tasks of environments that are known only from a workspace's own runners."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from apps.trajectories.models import Task

MAX_ENVIRONMENTS = 200


def tasks_in(workspace_id: UUID, environment: str, levels: Sequence[str] = ()) -> QuerySet[Task]:
    """Tasks attempted in `environment`, of the given levels or of all."""
    tasks = Task.objects.filter(workspace=workspace_id, environment=environment)
    return tasks.filter(difficulty__in=levels) if levels else tasks


def workspace_environments(workspace_id: UUID, *, held_out: bool = False) -> list[tuple[str, int]]:
    """Environment names, each with its number of training tasks (or held-out ones), most tasks first."""
    tasks = Task.objects.filter(workspace=workspace_id).exclude(environment="")
    counts = tasks.values_list("environment").annotate(count=Count("pk", filter=Q(held_out=held_out)))
    return list(counts.filter(count__gt=0).order_by("-count", "environment")[:MAX_ENVIRONMENTS])
