"""Tasks of environments that are known only from a workspace's own runners."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, QuerySet

from apps.datasets.models import Split
from apps.gateway.models import Path
from apps.trajectories.models import Task
from contract.task_parts import KEY_OF_PART

MAX_ENVIRONMENTS = 200


def whole_tasks(workspace_id: UUID) -> QuerySet[Task]:
    """The workspace's tasks without those of sub-agents, which are parts of others."""
    paths = Path.objects.filter(trajectory__task=OuterRef("pk"))
    # With OR, PostgreSQL looks up each task's paths. It would turn nested conditions into joins, of which it can choose one that takes minutes.
    is_whole = ~Exists(paths.filter(is_main=False)) | Exists(paths.filter(is_main=True))
    return Task.objects.filter(is_whole, workspace=workspace_id).exclude(key__regex=KEY_OF_PART)


def tasks_in(workspace_id: UUID, environment: str, levels: Sequence[str] = ()) -> QuerySet[Task]:
    """Tasks attempted in `environment`, of the given levels or of all."""
    tasks = whole_tasks(workspace_id).filter(environment=environment)
    return tasks.filter(difficulty__in=levels) if levels else tasks


def to_train_on(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Those that a policy may learn from: neither held out nor in a split with which versions are validated and tested."""
    return tasks.filter(held_out=False).exclude(split__split__in=[Split.VALIDATION, Split.TEST])


def workspace_environments(workspace_id: UUID, *, held_out: bool = False) -> list[tuple[str, int]]:
    """Environment names, each with its number of tasks to train on (or held-out ones), most tasks first."""
    tasks = whole_tasks(workspace_id).exclude(environment="")
    chosen = tasks.filter(held_out=True) if held_out else to_train_on(tasks)
    counts = chosen.values_list("environment").annotate(count=Count("pk"))
    return list(counts.order_by("-count", "environment")[:MAX_ENVIRONMENTS])
