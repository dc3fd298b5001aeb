"""Workspaces take turns at the workers: many jobs of one workspace, or long ones, don't keep out the next workspace's.

A message only says that a job of its kind waits. The worker that receives it claims the job whose turn it is, so there's a message for
every waiting job, whichever of them is claimed first. It's for kinds with few workers and long jobs (`Kind.by_turns`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db.models import Count
from django.utils.timezone import now

from apps.jobs.models import HELD, J, Kind

REMEMBERED_SECONDS = 7 * 24 * 3600
"""A workspace that had its last turn before that is treated like one that had none."""


def job_in_turn(kind: Kind[J], job: J) -> J:
    """The waiting job to claim on a message for `job`: this one, if it waits and no other workspace does."""
    if not kind.rows_by_turns.filter(pk=job.pk).exists():
        return job
    waiting = kind.rows_by_turns.waiting()
    oldest = list(waiting.order_by("workspace", "queued_at", "pk").distinct("workspace"))
    if not oldest or (len(oldest) == 1 and waiting.filter(pk=job.pk).exists()):
        return job
    return in_turn(kind, sorted(oldest, key=lambda each: each.queued_at))[0]


def record_turn(kind: Kind[J], job: J) -> None:
    """Note that the job's workspace has just had its turn."""
    if kind.by_turns is not None:
        cache.set(_key(kind, job.workspace_id), time.time(), REMEMBERED_SECONDS)


def in_turn(kind: Kind[J], jobs: Sequence[J]) -> list[J]:
    """Waiting jobs in the order in which workers are going to claim them, if none is added. `jobs`: the oldest first."""
    ranks: dict[UUID, tuple[int, float]] = _ranks(kind, {job.workspace_id for job in jobs})
    remaining, ordered = list(jobs), []
    while remaining:
        first = min(remaining, key=lambda job: ranks[job.workspace_id])  # the oldest of equals
        remaining.remove(first)
        ordered.append(first)
        held, _ = ranks[first.workspace_id]
        ranks[first.workspace_id] = (held, time.time() + len(ordered))
    return ordered


def _ranks(kind: Kind[Any], workspaces: Iterable[UUID]) -> dict[UUID, tuple[int, float]]:
    """How many workers each workspace occupies, and when it last had a turn (Unix time). The smallest goes first."""
    rows = kind.rows_by_turns.in_phase(*HELD).filter(workspace__in=workspaces, leased_until__gte=now())
    held: Mapping[UUID, int] = dict(rows.order_by().values_list("workspace").annotate(Count("pk")))
    turns = cache.get_many([_key(kind, workspace_id) for workspace_id in workspaces])
    return {each: (held.get(each, 0), turns.get(_key(kind, each), 0.0)) for each in workspaces}


def _key(kind: Kind[Any], workspace_id: UUID) -> str:
    return f"turn:{kind.name}:{workspace_id}"
