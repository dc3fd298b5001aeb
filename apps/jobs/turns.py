"""Workspaces take turns at the workers: many or long jobs of one workspace don't keep out those of the next.

A message only says that some job is waiting for these workers. The worker that receives it does the job whose turn it is, of any kind, so
there are as many messages as waiting jobs, regardless of which job is done first. This is for worker queues with few workers and long jobs
(`Kind.turns_at`).

Jobs that people wait for go first. But after one of them, another workspace's job gets a turn, so that a steady stream of them doesn't starve others.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db.models import Count
from django.utils.timezone import now

from apps.common.broker import route_of
from apps.jobs.models import HELD, Job, Kind, kind_of_job, kinds

REMEMBERED_SECONDS = 7 * 24 * 3600
"""How long a workspace's last turn is remembered. After that, it's treated like a workspace that never had a turn."""


def takes_turns(job: Job) -> bool:
    kind = kind_of_job(job)
    return bool(kind.turns_at) and route_of(kind.task(job)).worker_queue == kind.turns_at


def job_in_turn(worker_queue: str) -> Job | None:
    """The waiting job to do when a message of this worker queue arrives; None if none is waiting."""
    waiting = [job for kind in _kinds_at(worker_queue) for job in _oldest(kind)]
    return in_turn(waiting)[0] if waiting else None


def record_turn(job: Job) -> None:
    """Record that the job's workspace has just had its turn."""
    if takes_turns(job):
        worker_queue = kind_of_job(job).turns_at
        turns = {_key(worker_queue, job.workspace_id): time.time(), f"turn:{worker_queue}": _priority(job)}
        cache.set_many(turns, REMEMBERED_SECONDS)


def in_turn(jobs: Sequence[Job]) -> list[Job]:
    """Waiting jobs of one worker queue in the order in which workers will do them if no more are added."""
    worker_queue = kind_of_job(jobs[0]).turns_at
    ranks = _ranks(worker_queue, {job.workspace_id for job in jobs})
    last_priority = cache.get(f"turn:{worker_queue}")
    remaining: dict[tuple[UUID, int], list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: (job.queued_at, job.pk), reverse=True):
        remaining[job.workspace_id, _priority(job)].append(job)
    ordered: list[Job] = []
    while remaining:
        least = min(priority for _, priority in remaining)
        urgent = {turn for turn in remaining if turn[1] == least}
        workspaces = {workspace_id for workspace_id, _ in urgent}
        others = {turn for turn in remaining if turn[0] not in workspaces}
        candidates = others if others and last_priority == least else urgent
        first = min(candidates, key=lambda turn: (ranks[turn[0]], remaining[turn][-1].queued_at, turn[1]))
        ordered.append(remaining[first].pop())
        if not remaining[first]:
            del remaining[first]
        workspace_id, last_priority = first
        held, _ = ranks[workspace_id]
        ranks[workspace_id] = (held, time.time() + len(ordered))
    return ordered


def _kinds_at(worker_queue: str) -> list[Kind[Any]]:
    return [kind for kind in kinds() if kind.turns_at == worker_queue]


def _oldest(kind: Kind[Any]) -> list[Job]:
    waiting = kind.rows_by_turns.waiting().select_related(*kind.listed_with)
    return list(waiting.order_by("workspace", "queued_at", "pk").distinct("workspace"))


def _priority(job: Job) -> int:
    return route_of(kind_of_job(job).task(job)).priority


def _ranks(worker_queue: str, workspaces: Iterable[UUID]) -> dict[UUID, tuple[int, float]]:
    """How many workers each workspace occupies, and when it last had a turn (Unix time). The smallest goes first."""
    held: dict[UUID, int] = defaultdict(int)
    for kind in _kinds_at(worker_queue):
        rows = kind.rows_by_turns.in_phase(*HELD).filter(workspace__in=workspaces, leased_until__gte=now())
        for workspace_id, count in rows.order_by().values_list("workspace").annotate(Count("pk")):
            held[workspace_id] += count
    turns = cache.get_many([_key(worker_queue, workspace_id) for workspace_id in workspaces])
    return {pk: (held[pk], turns.get(_key(worker_queue, pk), 0.0)) for pk in workspaces}


def _key(worker_queue: str, workspace_id: UUID) -> str:
    return f"turn:{worker_queue}:{workspace_id}"
