"""The page of a queue's machine annotators: adding one, its prompt, its cost, and its agreement with people."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation.forms.settings import BudgetForm, JudgeForm, PromptForm
from apps.annotation.judges import enrollment
from apps.annotation.judges.judge_performance import judge_rows
from apps.annotation.models import Judge
from apps.annotation.queues import item_order
from apps.annotation.refusals import Refusal
from apps.annotation.views.visible import visible_queue
from apps.common.http import HtmxRequest
from apps.jobs.models import Phase

STEERING = {"pause": enrollment.pause_judge, "resume": enrollment.resume_judge}


@at_least(Role.RESEARCHER)
@require_http_methods(["GET", "HEAD", "POST"])
def judges(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The queue's judges, and the form to add another."""
    queue = visible_queue(request, queue_id)
    form = JudgeForm(request.POST or None, workspace=request.member.workspace)
    if request.method == "POST" and form.is_valid():
        try:
            judge = enrollment.send_judge(queue=queue, by=request.user, **form.settings())
            messages.success(request, f"{judge.annotator} is at work.")
            return redirect("annotation:judges", queue_id=queue.pk)
        except Refusal as refusal:
            form.add_error(None, str(refusal))
    rows = judge_rows(queue)
    context = {
        "queue": queue,
        "form": form,
        "rows": rows,
        "at_work": any(row.judge.is_active for row in rows),
        "waiting": next((row.judge for row in rows if row.judge.phase == Phase.WAITING), None),
    }
    template = "annotation/_judges.html" if request.htmx and request.method != "POST" else "annotation/judges.html"
    return render(request, template, context, status=422 if form.is_bound else 200)


@at_least(Role.RESEARCHER)
@require_POST
def steer_judge(request: HtmxRequest, queue_id: UUID, judge_id: UUID, action: str) -> HttpResponse:
    """Pause or resume a judge. `most_cost`: with this budget from now on; empty for none."""
    judge = get_object_or_404(Judge, queue=visible_queue(request, queue_id), pk=judge_id)
    if "most_cost" in request.POST:
        form = BudgetForm(request.POST)
        if not form.is_valid():
            messages.error(request, f"Budget: {form.errors['most_cost'][0]}")
            return redirect("annotation:judges", queue_id=queue_id)
        enrollment.set_budget(judge=judge, by=request.user, **form.cleaned_data)
    STEERING[action](judge=judge, by=request.user)
    return redirect("annotation:judges", queue_id=queue_id)


@at_least(Role.RESEARCHER)
@require_POST
def prompt(request: HtmxRequest, queue_id: UUID, judge_id: UUID) -> HttpResponse:
    """Save a new version of the prompt."""
    judge = get_object_or_404(Judge, queue=visible_queue(request, queue_id), pk=judge_id)
    form = PromptForm(request.POST)
    if form.is_valid():
        saved = enrollment.revise_prompt(judge=judge, text=form.cleaned_data["prompt"], by=request.user)
        messages.success(request, f"Its prompt is now version {saved.version}; earlier judgments keep their version.")
    else:
        messages.error(request, "Write what it should look for.")
    return redirect("annotation:judges", queue_id=queue_id)


@at_least(Role.RESEARCHER)
@require_POST
def reorder(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """Reorder the items by how informative a judgment is, according to the models here."""
    queue = visible_queue(request, queue_id)
    order = request.POST.get("order", "")
    if order not in item_order.SCORES:
        raise Http404
    try:
        moved = item_order.reorder(queue=queue, order=order, by=request.user)
        messages.success(request, f"{moved:,} items were reordered; assigned items stay in place.")
    except Refusal as refusal:
        messages.error(request, str(refusal))
    return redirect("annotation:judges", queue_id=queue.pk)
