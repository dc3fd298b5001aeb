"""Pages that convert imported judgments."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation.forms.imported_judgments import AdoptForm
from apps.annotation.imported_judgments.adoptable import survey
from apps.annotation.imported_judgments.conversion import adopt, adopted_from, selection_of
from apps.annotation.imported_judgments.records import preview
from apps.annotation.kinds.meanings import Survey
from apps.annotation.queues.sources import Selection
from apps.annotation.refusals import Refusal
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.trajectories.filters import BadFilter
from apps.trajectories.models import ImportBatch

NOTHING = Survey(runs=0, sides=None, verdicts=(), labels=(), indexes=(), names=())


@fragment_of(lambda batch_id, **_: reverse("trajectories:import", args=[batch_id]))
@at_least(Role.RESEARCHER)
@require_safe
def adoptable(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """For the page of an import: whether its file seems to contain judgments, and the queues already made from them."""
    batch = get_object_or_404(ImportBatch.objects.visible_to(request.member), pk=batch_id)
    try:
        selection = selection_of(batch)
    except Refusal:
        return HttpResponse()
    query = urlencode({"filter": selection.filter, "source": batch.filename})
    context = {
        "survey": survey(request.member.workspace, selection),
        "queues": adopted_from(batch),
        "address": f"{reverse('annotation:new_adopted')}?{query}",
    }
    return render(request, "annotation/_adoptable.html", context)


@at_least(Role.RESEARCHER)
@require_http_methods(["GET", "HEAD", "POST"])
def new_adopted(request: HtmxRequest) -> HttpResponse:
    """Define the meanings of the selected trajectories' columns and create a queue from them. The selection is passed as for a new queue."""
    selection = Selection.from_query(request.POST if request.method == "POST" else request.GET)
    form = _form(request, selection)
    if request.method == "POST" and form.is_valid():
        try:
            queue = adopt(
                workspace=request.member.workspace,
                selection=selection,
                meanings=form.meanings(),
                by=request.user,
                **{name: form.cleaned_data[name] for name in ("name", "source", "judged_by")},
            )
            return redirect("annotation:queue", queue_id=queue.pk)
        except (Refusal, BadFilter) as refusal:
            form.add_error(None, str(refusal))
    context = {"form": form, "selection": selection, **_preview(request, form, selection)}
    return render(request, "annotation/adopt.html", context, status=422 if form.is_bound else 200)


@at_least(Role.RESEARCHER)
@require_POST
def preview_adopted(request: HtmxRequest) -> HttpResponse:
    """What the current state of the form would yield."""
    selection = Selection.from_query(request.POST)
    form = _form(request, selection)
    form.is_valid()
    return render(request, "annotation/_adopt_preview.html", _preview(request, form, selection))


def _form(request: HtmxRequest, selection: Selection) -> AdoptForm:
    try:
        summary = survey(request.member.workspace, selection)
    except BadFilter:
        summary = NOTHING
    source = request.GET.get("source", "")[:300]
    initial = {"source": source, "name": f"Judgments of {source}"[:200] if source else "Imported judgments"}
    return AdoptForm(request.POST if request.method == "POST" else None, survey=summary, initial=initial)


def _preview(request: HtmxRequest, form: AdoptForm, selection: Selection) -> dict[str, Any]:
    if not form.kinds:
        return {}
    result = preview(request.member.workspace, selection, form.meanings(), form.survey.sides)
    return {"preview": result, "sides": form.survey.sides, "source": form.read("source") or "one annotator"}
