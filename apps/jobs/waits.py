"""Why a job is waiting: which job holds the worker, for about how long, and how many are ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils.timezone import now

from apps.accounts.models import Role
from apps.common import quantities
from apps.common.broker import Route, enqueue, route_of
from apps.common.health import served_queues
from apps.jobs.models import HELD, Job, JobQuerySet, Kind, Phase, kind_of_job, kinds
from apps.jobs.turns import in_turn, takes_turns

MAX_RUNNING, MAX_WAITING = 50, 200
"""Maximum jobs per kind."""
CLAIM_DELAY = timedelta(seconds=3)
"""An idle worker claims a job sooner than this."""


@dataclass(frozen=True)
class Holder:
    """The job that occupies a worker, limited to what the viewer may know."""

    name: str
    url: str
    """Empty if the viewer may not open it."""
    remaining_time: str
    """Approximate remaining time as text; empty if unknown."""


@dataclass(frozen=True)
class Wait:
    """Why a job hasn't started."""

    worker_queue: str
    has_worker: bool
    holder: Holder | None
    """If there are several, the one that ends first."""
    holders: int
    ahead: int
    """Number of waiting jobs ahead of it."""

    @property
    def after_name(self) -> str:
        """The text after the holder's name."""
        assert self.holder is not None, "called only if a job holds the worker"
        more = self.holders - 1
        text = f" and {more} more job{'s' if more > 1 else ''} hold the workers" if more else " holds the worker"
        if self.holder.remaining_time:
            text += (
                f"; the first has {self.holder.remaining_time} left" if more else f", {self.holder.remaining_time} left"
            )
        return text + self.ahead_text

    @property
    def ahead_text(self) -> str:
        if not self.ahead:
            return ""
        return f"; {self.ahead} other job{' goes' if self.ahead == 1 else 's go'} first"

    @property
    def text(self) -> str:
        """The explanation as a sentence without its period."""
        if not self.has_worker:
            return "No worker is running that could take this"
        if self.holder is None:
            return f"Waiting for a worker{self.ahead_text}"
        return f"{self.holder.name}{self.after_name}"


def wait_of(job: Job, *, role: Role) -> Wait | None:
    """Why this job hasn't started, limited to what a member with this role may know; None if it isn't waiting."""
    if job.phase != Phase.WAITING:
        return None
    route = route_of(kind_of_job(job).task(job))
    running = [other for kind in kinds() for other in _held(kind) if _route(other).worker_queue == route.worker_queue]
    served = served_queues()
    is_new = now() - job.queued_at < CLAIM_DELAY
    first_holder = None if is_new else min(running, key=_remaining_seconds, default=None)
    return Wait(
        worker_queue=route.worker_queue,
        has_worker=bool(running) or served is None or route.worker_queue in served,
        holder=_holder(first_holder, job, role) if first_holder else None,
        holders=len(running),
        ahead=_number_ahead(job, route),
    )


def should_yield(job: Job) -> bool:
    """Whether a more urgent job is waiting for this job's worker. Its message is resent, so that it's claimed next."""
    route = route_of(kind_of_job(job).task(job))
    for kind in kinds():
        # Only those of this worker: hundreds that wait for another one, such as a server that hangs, would hide them.
        rows = kind.rows_by_turns if kind.turns_at == route.worker_queue else kind.rows.none()
        for other in _waiting(kind, rows):
            if _route(other).priority < route.priority and now() - other.queued_at > CLAIM_DELAY:
                enqueue(kind.task(other), str(other.pk))
                return True
    return False


def _held(kind: Kind[Any]) -> list[Job]:
    # Jobs without a lease, such as rollouts by runners, don't occupy a worker.
    held = kind.rows.in_phase(*HELD).exclude(leased_until=None)
    rows = held.select_related(*kind.listed_with).order_by("started_at")
    return list(rows[:MAX_RUNNING])


def _waiting(kind: Kind[Any], rows: JobQuerySet[Any]) -> list[Job]:
    return list(rows.waiting().select_related(*kind.listed_with).order_by("queued_at")[:MAX_WAITING])


def _route(job: Job) -> Route:
    return route_of(kind_of_job(job).task(job))


def _number_ahead(job: Job, route: Route) -> int:
    """How many waiting jobs will be claimed before this one."""
    waiting = [
        other
        for kind in kinds()
        for other in _waiting(kind, kind.rows)
        if _route(other).worker_queue == route.worker_queue
    ]
    if takes_turns(job) and job in waiting:
        return in_turn(waiting).index(job)
    return sum(_is_ahead(other, route, job) for other in waiting)


def _is_ahead(other: Job, route: Route, job: Job) -> bool:
    other_route = _route(other)
    return other.pk != job.pk and (other_route.priority, other.queued_at) < (route.priority, job.queued_at)


def _remaining_seconds(job: Job) -> float:
    remaining = job.seconds_left
    return float("inf") if remaining is None else remaining


def _holder(running: Job, job: Job, role: Role) -> Holder:
    kind = kind_of_job(running)
    remaining_time = approximate_duration(running.seconds_left)
    if running.workspace_id != job.workspace_id:
        return Holder(f"Another workspace's {kind.noun}", "", remaining_time)
    if role < kind.model.visible_from:
        return Holder(f"{'An' if kind.noun[0] in 'aeiou' else 'A'} {kind.noun}", "", remaining_time)
    return Holder(f"{kind.noun.capitalize()} “{kind.title(running)}”", kind.url(running), remaining_time)


def approximate_duration(seconds: float | None) -> str:
    """ "about 50 s", "about 11 min": rounded, since it's an estimate. Empty if it's unknown or absurd; other workspaces' jobs are shown, too."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    unit = 10 if seconds < 90 else 60
    return f"about {quantities.duration(max(1, round(seconds / unit)) * unit)}"
