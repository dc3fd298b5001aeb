"""Bulk actions: label everything that matches a filter, assign items to people, undo either."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.access import at_least
from apps.accounts.models import Role, User
from apps.annotation.bulk.assignment import assign_items
from apps.annotation.bulk.labels import MAX_TRAJECTORIES, label_all
from apps.annotation.bulk.undo import undo_bulk_act
from apps.annotation.forms.bulk import LabelAllForm
from apps.annotation.models import BulkAct
from apps.annotation.queues.sources import Selection, selected
from apps.annotation.refusals import Refusal
from apps.annotation.views.visible import visible_queue
from apps.common.http import HtmxRequest
from apps.trajectories.filters import BadFilter
from apps.trajectories.lists import Capped

SHOWN = 10


@at_least(Role.RESEARCHER)
@require_http_methods(["GET", "HEAD", "POST"])
def label(request: HtmxRequest) -> HttpResponse:
    """One label for `trajectory` ids, or for everything that matches `filter` (a query string of the list of trajectories)."""
    selection = Selection.from_query(request.POST if request.method == "POST" else request.GET)
    form = LabelAllForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            act = label_all(member=request.member, selection=selection, **form.cleaned_data)
            messages.success(request, f"{act}.")
            return redirect("annotation:queue", queue_id=act.queue_id)
        except (Refusal, BadFilter) as refusal:
            form.add_error(None, str(refusal))
    problem = ""
    try:
        matches = selected(request.member.workspace, selection)
        number = matches.order_by()[: MAX_TRAJECTORIES + 1].count()
        shown = list(
            matches.select_related("task", "policy")
            .defer("tools", "closing", "info", "task__initial_state", "task__success_check")
            .order_by("-pk")[:SHOWN]
        )
    except BadFilter as error:
        problem, number, shown = str(error), 0, []
    context = {
        "form": form,
        "selection": selection,
        "count": Capped(min(number, MAX_TRAJECTORIES), number > MAX_TRAJECTORIES),
        "shown": shown,
        "problem": problem,
        "most": MAX_TRAJECTORIES,
    }
    return render(request, "annotation/label_all.html", context, status=422 if form.is_bound else 200)


@at_least(Role.RESEARCHER)
@require_POST
def assign(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """Assign the selected items to the chosen people, or to everybody again."""
    queue = visible_queue(request, queue_id)
    items = [int(text) for text in request.POST.getlist("item") if text.isdecimal() and len(text) < 19]
    chosen = [int(text) for text in request.POST.getlist("person") if text.isdecimal() and len(text) < 10]
    people = list(User.objects.filter(pk__in=chosen, memberships__workspace=queue.workspace_id).order_by("name", "pk"))
    try:
        act = assign_items(queue=queue, items=items, people=people, by=request.member)
        messages.success(request, f"{act}.")
    except Refusal as refusal:
        messages.error(request, str(refusal))
    return redirect("annotation:items", queue_id=queue.pk)


@at_least(Role.RESEARCHER)
@require_POST
def undo(request: HtmxRequest, act_id: UUID) -> HttpResponse:
    """Undo a whole action."""
    act = get_object_or_404(BulkAct.objects.visible_to(request.member), pk=act_id)
    try:
        undo_bulk_act(act=act, by=request.user)
        messages.success(request, f"Undone: {act}.")
    except Refusal as refusal:
        messages.error(request, str(refusal))
    return redirect("annotation:queue" if act.kind == BulkAct.Kind.LABEL else "annotation:items", queue_id=act.queue_id)
