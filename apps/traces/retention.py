"""How long spans are kept. Trajectories stay, each with the spans it was made from as its original record."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q
from django.utils.timezone import now

from apps.traces.models import Source, Span, Trace, TracePart

LATE = timedelta(hours=24)
"""Time after a trace's last new span during which more spans may still change its trajectories."""
LATE_WITHOUT_CALLS = timedelta(hours=1)
"""The same for traces without model calls, which may be most of what an application sends."""
FORGOTTEN = timedelta(days=30)
"""Time during which spans that are sent again are recognized, and not counted twice."""
AT_ONCE = 2000


def delete_idle_spans() -> None:
    """Delete the spans of traces that are complete, and later the traces, except those of several trajectories."""
    current_time = now()
    passed_over = Q(state=Trace.State.PASSED_OVER, changed_at__lt=current_time - LATE_WITHOUT_CALLS)
    old = Trace.objects.with_spans().filter(Q(changed_at__lt=current_time - LATE) | passed_over, due_at=None)
    while ids := list(old.order_by("changed_at").values_list("pk", flat=True)[:AT_ONCE]):
        with transaction.atomic():
            locked = list(old.filter(pk__in=ids).select_for_update(skip_locked=True).values_list("pk", flat=True))
            Span.objects.filter(trace__in=locked).delete()
            Source.objects.filter(trace__in=locked).delete()
            Trace.objects.filter(pk__in=locked).update(closed_at=current_time)
        if not locked:
            return
    closed = Trace.objects.filter(closed_at__lt=current_time - FORGOTTEN)
    # If one of several trajectories is deleted, the others' original records go, too, which needs to know them.
    parts = TracePart.objects.filter(trace=OuterRef("pk")).order_by()
    several = Exists(parts.values("trace").annotate(number=Count("pk")).filter(number__gt=1))
    forgotten = closed.filter(~several).values_list("pk", flat=True)
    # In batches: after days without this task there may be millions, which Django reads into memory first.
    while ids := list(forgotten[:AT_ONCE]):
        Trace.objects.filter(pk__in=ids).delete()
