"""Pages of quality: agreement, figures per annotator, and one's own figures."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation.desk.assignments import annotator_of
from apps.annotation.judges.judge_performance import compared_with_models
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Queue
from apps.annotation.quality import feedback, presentation
from apps.annotation.quality.reports import report_of
from apps.annotation.queries import golds_of, latest_judgments_of
from apps.annotation.review.feedback import feedback_for
from apps.annotation.views.visible import visible_queue
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest


@at_least(Role.REVIEWER)
@require_safe
def quality(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """Agreement and annotators. While a worker measures, the page polls and shows the previous report."""
    queue = visible_queue(request, queue_id)
    context = _context(queue)
    return render(request, "annotation/_quality.html" if request.htmx else "annotation/quality.html", context)


@fragment_of(lambda queue_id, **_: reverse("annotation:queue", args=[queue_id]) + "#agreement")
@at_least(Role.REVIEWER)
@require_safe
def agreement(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The main figures, for the queue's page."""
    return render(request, "annotation/_agreement.html", _context(visible_queue(request, queue_id)))


@at_least(Role.REVIEWER)
@require_safe
def person(request: HtmxRequest, queue_id: UUID, annotator_id: UUID) -> HttpResponse:
    """One annotator in one queue."""
    queue = visible_queue(request, queue_id)
    annotator = get_object_or_404(Annotator.objects.visible_to(request.member), pk=annotator_id)
    context = {
        "queue": queue,
        "kind": kind_of(queue),
        "annotator": annotator,
        "desk": queue.desks.filter(annotator=annotator).first(),
        "report": (report := report_of(queue)),
        "row": presentation.person_row(report.figures, annotator, golds_of(queue)),
        "latest": latest_judgments_of(queue, annotator, request.member),
    }
    return render(request, "annotation/person.html", context)


@require_safe
def mine(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The visitor's own figures in a queue, and nobody else's.

    Accuracy is delayed as described in `feedback`, so that it can't be used to correct answers.
    """
    queue = get_object_or_404(Queue.objects.visible_to(request.member).for_desk(), pk=queue_id)
    annotator = annotator_of(request.member)
    report = report_of(queue)
    context = {
        "queue": queue,
        "kind": kind_of(queue),
        "report": report,
        "row": presentation.own_figures(report.figures, annotator),
        "delay": feedback,
        "annotator": annotator,
        "feedback": feedback_for(queue, annotator),
        "compared": compared_with_models(queue, annotator),
    }
    return render(request, "annotation/mine.html", context)


def _context(queue: Queue) -> dict[str, Any]:
    report = report_of(queue)
    rows = Annotator.objects.filter(pk__in=list(report.figures.get("annotators", {})))
    annotators = {str(annotator.pk): annotator for annotator in rows}
    return {
        "queue": queue,
        "kind": kind_of(queue),
        "report": report,
        "measures": presentation.measure_rows(report.figures),
        "matrix": presentation.matrix(report.figures, annotators),
        "people": presentation.people_rows(report.figures, annotators, golds_of(queue)),
    }
