"""What pages say about jobs of any kind."""

from __future__ import annotations

from typing import Any

from django import template

from apps.accounts.models import Role
from apps.jobs.models import Job
from apps.jobs.waits import Wait, wait_of

register = template.Library()


@register.simple_tag(takes_context=True)
def why_waiting(context: dict[str, Any], job: Job) -> Wait | None:
    """Why a job has not begun. Where many browsers get the same, it says what everybody may know who may see the job."""
    request = context.get("request")
    return wait_of(job, role=Role(request.member.role if request else job.visible_from))
