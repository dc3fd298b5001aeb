"""The jobs page: what runs where, what waits for what, what failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.common.sorting import sorting_by
from apps.jobs import lifecycle
from apps.jobs.models import Job
from apps.jobs.queries import ENDED, ENDED_COLUMNS, find_job, jobs_of, worker_queues_of

SHOWN_ENDED = 50


@require_safe
@at_least(Role.OWNER)
def jobs(request: HtmxRequest) -> HttpResponse:
    """All running and waiting work of this workspace."""
    queues = worker_queues_of(request.member)
    sorting = sorting_by(ENDED_COLUMNS, request.GET.get("sort", ""))
    ended: Any = jobs_of(request.member, phases=ENDED)
    context = {
        "queues": queues,
        "page": page_of(ended, cursor=request.GET.get("cursor", ""), order=sorting.fields, size=SHOWN_ENDED),
        "sorting": sorting,
        "is_moving": any(queue.running or queue.waiting for queue in queues),
    }
    return render(request, "jobs/jobs.html", context)


@require_POST
@at_least(Role.OWNER)
def cancel(request: HtmxRequest, kind: str, job_id: UUID) -> HttpResponse:
    """Stop a job."""
    return _act(request, kind, job_id, lifecycle.cancel)


@require_POST
@at_least(Role.OWNER)
def resume(request: HtmxRequest, kind: str, job_id: UUID) -> HttpResponse:
    """Queue a stopped job again."""
    return _act(request, kind, job_id, lifecycle.resume)


def _act(request: HtmxRequest, kind: str, job_id: UUID, act: Callable[..., Job]) -> HttpResponse:
    job = find_job(request.member, kind, job_id)
    try:
        act(job, by=request.user)
    except lifecycle.JobRefusal as refusal:
        messages.error(request, str(refusal))
    return redirect("jobs:list")
