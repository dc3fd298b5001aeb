"""Assigns tasks to splits: once for each task of a workspace, and never again.

Tasks of sub-agents go with the task of their session, parts of which their chats repeat.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import OuterRef, Subquery

from apps.accounts.models import Workspace
from apps.datasets.models import Split, TaskSplit
from apps.gateway.models import Path
from apps.trajectories.models import Task
from contract.task_parts import whole_key


class SplitTask(NamedTuple):
    """The inputs of the assignment."""

    id: UUID
    environment: str
    key: str
    held_out: bool
    split: str | None
    """Its current split, if any."""


class Family(NamedTuple):
    """Tasks with those that they're parts of."""

    tasks: Sequence[SplitTask]
    wholes: Mapping[UUID, Sequence[UUID]]
    """Task of a sub-agent -> the tasks of its sessions, all of them among `tasks`."""


def family_of(tasks: Sequence[SplitTask], workspace: Workspace) -> Family:
    """These tasks, and those of the sessions whose sub-agents did one of them, recorded or imported."""
    main = Path.objects.filter(session=OuterRef("session"), is_main=True).values("trajectory__task")
    parts = Path.objects.filter(is_main=False, trajectory__task__in=[task.id for task in tasks])
    pairs = parts.annotate(whole=Subquery(main)).values_list("trajectory__task", "whole").distinct()
    wholes: dict[UUID, list[UUID]] = defaultdict(list)
    for part, whole in pairs.order_by("whole"):
        if whole not in (part, None):  # a branch of the main path is an attempt at the same task
            wholes[part].append(whole)
    keys = {task.id: (task.environment, key) for task in tasks if (key := whole_key(task.key))}
    named = Task.objects.filter(workspace=workspace, key__in={key for _, key in keys.values()})
    ids = {(environment, key): pk for pk, environment, key in named.values_list("pk", "environment", "key")}
    for part, identity in keys.items():
        if identity in ids:
            wholes[part].append(ids[identity])
    known = {task.id for task in tasks}
    others = Task.objects.filter(pk__in={whole for found in wholes.values() for whole in found} - known)
    columns = ("pk", "environment", "key", "held_out", "split__split")
    return Family([*tasks, *(SplitTask(*row) for row in others.values_list(*columns))], wholes)


def assign(
    tasks: Iterable[SplitTask],
    *,
    shares: Mapping[Split, int],
    seed: int,
    wholes: Mapping[UUID, Sequence[UUID]] = MappingProxyType({}),
) -> dict[UUID, Split]:
    """A split for each task: its current one, else the one furthest below its target share. Pure.

    New tasks are assigned in an order shuffled by the seed. Held-out tasks never go to train. Counting instead of drawing at random keeps small
    datasets close to their target shares.

    wholes: as in `Family`. A new task of a sub-agent gets the split of its session's task or, if there are several, the one furthest from training.
    """
    tasks = list(tasks)
    chosen = {task.id: Split(task.split) for task in tasks if task.split}
    filled = dict.fromkeys(Split, 0)
    for split in chosen.values():
        filled[split] += 1
    of_others = {whole for found in wholes.values() for whole in found}
    parts = {task.id: task for task in tasks if not task.split and task.id in wholes and task.id not in of_others}
    new = [task for task in tasks if not task.split and task.id not in parts]
    for task in sorted(new, key=lambda task: _shuffled(task, seed)):
        open_to = [split for split in Split if shares[split] and not (task.held_out and split is Split.TRAIN)]
        total = sum(filled.values()) + 1
        best = max(open_to, key=lambda s: shares[s] / 100 * total - filled[s]) if open_to else Split.TEST
        chosen[task.id] = best
        filled[best] += 1
    for part in parts.values():
        split = max((chosen[whole] for whole in wholes[part.id]), key=list(Split).index)
        chosen[part.id] = Split.TEST if part.held_out and split is Split.TRAIN else split
    return chosen


def _shuffled(task: SplitTask, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{task.environment}\0{task.key}".encode()).digest()


@transaction.atomic
def settle(
    tasks: Sequence[SplitTask], *, workspace: Workspace, shares: Mapping[Split, int], seed: int
) -> dict[UUID, Split]:
    """Store splits for the tasks that have none, and for those that they're parts of; return every task's split.

    Locks the workspace's row, so concurrent freezes can't assign the same tasks differently or miscount each other's.
    """
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    family = family_of(tasks, workspace)
    ids = [task.id for task in family.tasks]
    existing = dict(TaskSplit.objects.filter(task__in=ids).values_list("task_id", "split"))
    current = [task._replace(split=existing.get(task.id)) for task in family.tasks]
    chosen = assign(current, shares=shares, seed=seed, wholes=family.wholes)
    TaskSplit.objects.bulk_create(
        [
            TaskSplit(task_id=task, workspace=workspace, split=split)
            for task, split in chosen.items()
            if task not in existing
        ],
        batch_size=5000,
    )
    return chosen
