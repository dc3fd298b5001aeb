"""Queries on traces for the page."""

from __future__ import annotations

from django.db.models import Prefetch, QuerySet

from apps.accounts.models import Membership
from apps.traces.models import Trace, TracePart


def traces_for_list(member: Membership) -> QuerySet[Trace]:
    """Traces with their trajectories."""
    parts = TracePart.objects.select_related("trajectory").only("trace", "trajectory__step_count").order_by("pk")
    return Trace.objects.visible_to(member).prefetch_related(Prefetch("parts", parts))
