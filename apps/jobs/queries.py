"""Reads for the jobs page and the API: jobs of all kinds in one list, with one query per kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, Q, When
from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.accounts.models import Membership, Role
from apps.common.broker import route_of
from apps.common.health import WORKER_QUEUES, served_queues
from apps.common.sorting import by_age
from apps.jobs.models import ACTIVE, Job, JobQuerySet, Kind, Phase, kind_named, kinds
from apps.jobs.turns import in_turn, takes_turns
from apps.jobs.waits import approximate_duration

MAX_ACTIVE = 200
"""Maximum jobs per kind; those of the workspace come first."""
ENDED = (Phase.FAILED, Phase.CANCELLED)
ENDED_COLUMNS = (by_age("Created"),)
"""Ids are time-ordered in every kind; any other order would require reading all jobs of several tables."""


@dataclass(frozen=True)
class Row:
    """A job of any kind, as shown in lists."""

    kind: Kind[Any]
    job: Job

    @property
    def pk(self) -> UUID:
        return self.job.pk

    @property
    def title(self) -> str:
        return self.kind.title(self.job)

    @property
    def url(self) -> str:
        return self.kind.url(self.job)

    @property
    def worker_queue(self) -> str:
        return route_of(self.kind.task(self.job)).worker_queue

    @property
    def priority(self) -> int:
        """Priority within its worker queue; lower numbers go first."""
        return route_of(self.kind.task(self.job)).priority

    @property
    def remaining_time(self) -> str:
        """Remaining time as text."""
        return approximate_duration(self.job.seconds_left)

    @property
    def may_cancel(self) -> bool:
        return self.kind.is_cancellable and self.job.is_cancellable

    @property
    def may_resume(self) -> bool:
        return self.kind.is_resumable and self.job.is_resumable


@dataclass(frozen=True)
class WaitingJob:
    """A waiting job, and what is ahead of it."""

    row: Row
    running: int
    """Jobs that occupy workers of its worker queue."""
    ahead: int
    """Jobs ahead of it in that worker queue."""
    first_title: str
    """The first of these, if it's in this workspace."""

    @property
    def place(self) -> str:
        others = self.running + self.ahead
        if not others:
            return "Next"
        if not self.first_title:
            return f"Behind {others} job{'' if others == 1 else 's'} of other workspaces"
        more = "" if others == 1 else f" and {others - 1} more"
        return f"Behind {self.first_title}{more}"


@dataclass(frozen=True)
class WorkerQueue:
    """A worker queue of this installation, with a workspace's jobs in it."""

    worker_queue: str
    has_worker: bool
    running: list[Row]
    waiting: list[WaitingJob]
    count_elsewhere: int
    """Active jobs of other workspaces."""


def worker_queues_of(member: Membership) -> list[WorkerQueue]:
    """Running and waiting jobs by worker queue. Other workspaces' jobs are only counted, since their details are private."""
    rows = [row for kind in kinds() for row in _active(kind, member.workspace_id)]
    by_queue: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_queue[row.worker_queue].append(row)
    served = served_queues()
    return [
        _worker_queue(name, by_queue[name], member.workspace_id, has_worker=served is None or name in served)
        for name in sorted({*WORKER_QUEUES, *by_queue})
    ]


@dataclass(frozen=True)
class JobsOfAllKinds:
    """An owner's jobs, newest first (ids of all kinds are time-ordered). Implements what pagination needs of a queryset."""

    rows: Mapping[str, JobQuerySet[Any]]
    """Querysets by name of the kind."""
    order: str = "-pk"

    def order_by(self, order: str) -> JobsOfAllKinds:
        return JobsOfAllKinds({name: rows.order_by(order) for name, rows in self.rows.items()}, order)

    def filter(self, *conditions: Q, **lookups: Any) -> JobsOfAllKinds:
        return JobsOfAllKinds(
            {name: rows.filter(*conditions, **lookups) for name, rows in self.rows.items()}, self.order
        )

    def __getitem__(self, window: slice) -> list[Row]:
        rows = [
            Row(kind, job) for kind in kinds() if kind.name in self.rows for job in self.rows[kind.name][: window.stop]
        ]
        rows.sort(key=lambda row: row.pk, reverse=self.order.startswith("-"))
        return rows[window]


def jobs_of(member: Membership, *, phases: Collection[Phase], kind_name: str = "") -> JobsOfAllKinds:
    """The jobs that an owner may see, of all kinds or of the kind `kind_name`."""
    selected = [kind for kind in kinds() if kind_name in ("", kind.name)]
    return JobsOfAllKinds(
        {
            kind.name: kind.rows.visible_to(member, at_least=Role.OWNER)
            .in_phase(*phases)
            .select_related(*kind.listed_with)
            .order_by("-pk")
            for kind in selected
        }
    )


def find_job(member: Membership, kind_name: str, job_id: UUID) -> Job:
    """A job that an owner may cancel or resume. Raises Http404."""
    kind = kind_named(kind_name)
    if kind is None:
        raise Http404
    rows = kind.rows.visible_to(member, at_least=Role.OWNER).select_related("workspace", *kind.listed_with)
    job: Job = get_object_or_404(rows, pk=job_id)
    return job


def _active(kind: Kind[Any], workspace_id: UUID) -> Iterable[Row]:
    is_elsewhere = Case(When(workspace=workspace_id, then=False), default=True)
    rows = kind.rows.in_phase(*ACTIVE).select_related(*kind.listed_with).order_by(is_elsewhere, "queued_at")
    return (Row(kind, job) for job in rows[:MAX_ACTIVE])


def _worker_queue(name: str, rows: list[Row], workspace_id: UUID, *, has_worker: bool) -> WorkerQueue:
    running = [row for row in rows if row.job.phase != Phase.WAITING]
    at_workers = [row for row in running if row.job.leased_until]  # not rollouts that runners play elsewhere
    waiting = _in_order([row for row in rows if row.job.phase == Phase.WAITING])
    of_workspace = Counter(row.job.workspace_id == workspace_id for row in rows)
    running_here = [row for row in running if row.job.workspace_id == workspace_id]
    waiting_here: list[WaitingJob] = []
    first_title = next((row.title for row in at_workers if row.job.workspace_id == workspace_id), "")
    for ahead, row in enumerate(waiting):
        if row.job.workspace_id != workspace_id:
            continue
        waiting_here.append(WaitingJob(row, len(at_workers), ahead, first_title))
        first_title = first_title or row.title
    return WorkerQueue(name, has_worker, running_here, waiting_here, of_workspace[False])


def _in_order(waiting: list[Row]) -> list[Row]:
    """Waiting jobs of one worker queue in the order in which workers will take them."""
    if waiting and all(takes_turns(row.job) for row in waiting):
        places = {job.pk: place for place, job in enumerate(in_turn([row.job for row in waiting]))}
        return sorted(waiting, key=lambda row: places[row.pk])
    return sorted(waiting, key=lambda row: (row.priority, row.job.queued_at))
