"""Lanes: a workspace has one running job in each, so that many or long jobs of one workspace leave workers to the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from django.utils.timezone import now

from apps.accounts.models import User, Workspace
from apps.jobs.models import HELD, J, Job, Kind, kind_of_job, kinds

DEFAULT_LANES = ("imports", "versions", "upkeep")
"""Lanes that share the worker queue `default`."""
DEFAULT_AT_ONCE = 2
"""Maximum number of these lanes in which a workspace has a running job at a time. Filling and measuring its queues also takes workers there, and one
of the four must remain for other workspaces."""
PERSON_AT_ONCE = 2
"""The same for one person in all workspaces together, since researchers may create any number of workspaces."""


def has_its_share(kind: Kind[J], job: J) -> bool:
    """Whether workers hold another job of this lane and workspace, jobs in as many lanes as a workspace may use at once, or as many as one person may
    have. Locks the workspace, and the person; otherwise two workers could both find none."""
    if not kind.rows_in_lane.filter(pk=job.pk).exists():
        return False
    Workspace.objects.select_for_update(no_key=True).get(pk=job.workspace_id)
    held = {lane for lane in _sharing_workers_with(kind.lane) if _is_held(lane, job)}
    if kind.lane in held:
        return True
    return kind.lane in DEFAULT_LANES and (len(held) >= DEFAULT_AT_ONCE or _person_has_their_share(job))


def kept_waiting(job: Job) -> list[Callable[[], Job | None]]:
    """Searches for the jobs that may begin once this one has ended: the workspace's next one in its lane and in each lane that shares its workers, and the
    next ones of whoever requested it."""
    lane, person = kind_of_job(job).lane, _person_of(job)
    searches: list[Callable[[], Job | None]] = []
    for beside in _sharing_workers_with(lane) if lane else ():
        searches.append(partial(_first_waiting, beside, workspace=job.workspace_id))
        if lane in DEFAULT_LANES and person is not None:
            searches.append(partial(_first_waiting, beside, beyond=job.workspace_id, created_by=person))
    return searches


def _first_waiting(lane: str, beyond: UUID | None = None, **of: Any) -> Job | None:
    waiting = [kind.rows_in_lane.waiting().filter(**of).exclude(workspace=beyond) for kind in _kinds_of_lane(lane)]
    candidates = [job for rows in waiting if (job := rows.order_by("queued_at").first())]
    return min(candidates, key=lambda job: job.queued_at, default=None)


def _is_held(lane: str, job: Job) -> bool:
    """Whether a worker holds a job of this lane and workspace, other than `job`."""
    held = (lane_kind.rows_in_lane.in_phase(*HELD) for lane_kind in _kinds_of_lane(lane))
    other_jobs = (rows.filter(workspace=job.workspace_id, leased_until__gte=now()).exclude(pk=job.pk) for rows in held)
    return any(rows.exists() for rows in other_jobs)


def _person_has_their_share(job: Job) -> bool:
    """Whether workers hold as many other jobs of whoever requested this one, in any workspace, as one person may have."""
    person = _person_of(job)
    if person is None:
        return False
    User.objects.select_for_update(no_key=True).filter(pk=person).first()
    held = (kind.rows_in_lane.in_phase(*HELD) for lane in DEFAULT_LANES for kind in _kinds_of_lane(lane))
    theirs = (rows.filter(created_by=person, leased_until__gte=now()).exclude(pk=job.pk) for rows in held)
    return sum(rows.count() for rows in theirs) >= PERSON_AT_ONCE


def _person_of(job: Job) -> int | None:
    """Who requested it; None if nobody did, as for deletions by a retention rule."""
    return getattr(job, "created_by_id", None)


def _sharing_workers_with(lane: str) -> tuple[str, ...]:
    """The lane, and the lanes that share its workers."""
    return DEFAULT_LANES if lane in DEFAULT_LANES else (lane,)


def _kinds_of_lane(lane: str) -> list[Kind[Any]]:
    return [kind for kind in kinds() if kind.lane == lane]
