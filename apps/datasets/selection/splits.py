"""Assigns tasks to splits: once for each task of a workspace, and never again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Workspace
from apps.datasets.models import Split, TaskSplit


class SplitTask(NamedTuple):
    """The inputs of the assignment."""

    id: UUID
    environment: str
    key: str
    held_out: bool
    split: str | None
    """Its current split, if any."""


def assign(tasks: Iterable[SplitTask], *, shares: Mapping[Split, int], seed: int) -> dict[UUID, Split]:
    """A split for each task: its current one, else the one furthest below its target share. Pure.

    New tasks are assigned in an order shuffled by the seed. Held-out tasks never go to train. Counting instead of drawing at random keeps small
    datasets close to their target shares.
    """
    tasks = list(tasks)
    chosen = {task.id: Split(task.split) for task in tasks if task.split}
    filled = dict.fromkeys(Split, 0)
    for split in chosen.values():
        filled[split] += 1
    new = [task for task in tasks if not task.split]
    for task in sorted(new, key=lambda task: _shuffled(task, seed)):
        open_to = [split for split in Split if shares[split] and not (task.held_out and split is Split.TRAIN)]
        total = sum(filled.values()) + 1
        best = max(open_to, key=lambda s: shares[s] / 100 * total - filled[s]) if open_to else Split.TEST
        chosen[task.id] = best
        filled[best] += 1
    return chosen


def _shuffled(task: SplitTask, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{task.environment}\0{task.key}".encode()).digest()


@transaction.atomic
def settle(
    tasks: Sequence[SplitTask], *, workspace: Workspace, shares: Mapping[Split, int], seed: int
) -> dict[UUID, Split]:
    """Store splits for the tasks that have none, and return every task's split.

    Locks the workspace's row, so concurrent freezes can't assign the same tasks differently or miscount each other's.
    """
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    ids = [task.id for task in tasks]
    existing = dict(TaskSplit.objects.filter(task__in=ids).values_list("task_id", "split"))
    chosen = assign([task._replace(split=existing.get(task.id)) for task in tasks], shares=shares, seed=seed)
    TaskSplit.objects.bulk_create(
        [
            TaskSplit(task_id=task, workspace=workspace, split=split)
            for task, split in chosen.items()
            if task not in existing
        ],
        batch_size=5000,
    )
    return chosen
