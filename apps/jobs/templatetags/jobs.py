"""Template tags for jobs of any kind."""

from __future__ import annotations

from typing import Any

from django import template

from apps.accounts.models import Role
from apps.jobs.models import Job
from apps.jobs.waits import Wait, wait_of

register = template.Library()


@register.simple_tag(takes_context=True)
def why_waiting(context: dict[str, Any], job: Job) -> Wait | None:
    """Why a job hasn't started. In a partial sent to several people, it only includes what everyone who can see the job may know."""
    request = context.get("request")
    return wait_of(job, role=Role(request.member.role if request else job.visible_from))
