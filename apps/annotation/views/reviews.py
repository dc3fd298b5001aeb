"""Review: one disputed item after another, and feedback to its annotators."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation import phrases, queries
from apps.annotation.desk.assignments import annotator_of
from apps.annotation.forms.settings import DecisionForm, RemarkForm
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.blindness import is_on_desk, is_review_blind
from apps.annotation.kinds.kind import PartUrl
from apps.annotation.models import Adjudication, Annotator, Assignment, Item
from apps.annotation.refusals import Refusal
from apps.annotation.review import adjudication
from apps.annotation.views.visible import visible_queue
from apps.common.fair_share import enter_long
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.trajectories.content_responses import answer_part


@at_least(Role.REVIEWER)
@require_safe
def next_review(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The next disputed item without a decision; `after` skips one."""
    queue = visible_queue(request, queue_id)
    waiting = adjudication.awaiting_review(queue)
    after = request.GET.get("after", "")
    item = (
        waiting.filter(position__gt=int(after)).first() if after.isdecimal() and len(after) < 19 else None
    ) or waiting.first()
    if item is None:
        return render(request, "annotation/review_done.html", {"queue": queue})
    return redirect("annotation:review_item", queue_id=queue.pk, item_id=item.pk)


@at_least(Role.REVIEWER)
@require_http_methods(["GET", "HEAD", "POST"])
def review(request: HtmxRequest, queue_id: UUID, item_id: int) -> HttpResponse:
    """One item to decide. In a blind review, others' judgments are shown after the decision."""
    queue = visible_queue(request, queue_id)
    item = get_object_or_404(queries.items_of(queue), pk=item_id)
    kind = kind_of(queue)
    is_mine = is_on_desk(item, request.member)
    judgments = [] if is_mine else queries.judgments_under_review(queue, item)
    decision = _decision_on(request, item)
    form = DecisionForm(request.POST or None, item=item, judgments=judgments, decision=decision)
    if request.method == "POST" and form.is_valid():
        replaces = request.POST.get("replaces")
        is_blind = not replaces and is_review_blind(queue, decision, reviewers_answer=kind.reviewers_answer)
        try:
            settled = adjudication.adjudicate(
                item=item, by=request.user, blind=is_blind, replaces=replaces, **form.decision()
            )
        except Refusal as refusal:
            form.add_error(None, str(refusal))
            decision = _decision_on(request, item)
        else:
            messages.success(request, phrases.after_decision(settled, judgments))
            return redirect(f"{reverse('annotation:review', args=[queue.pk])}?after={item.position}")
    enter_long(request, steps=item.step_count)
    context = {
        "queue": queue,
        "item": item,
        "form": form,
        "decision": decision,
        "shows_decision": not is_mine,
        "decided": phrases.decided(decision, judgments) if decision else "",
        "judgments": [(judgment, phrases.in_review(judgment, item)) for judgment in judgments],
        "judged_by": phrases.judged_by(judgments),
        "hidden": is_review_blind(queue, decision, reviewers_answer=kind.reviewers_answer),
        "waiting": adjudication.awaiting_review(queue)[:100].count(),
        "kind": kind,
        **kind.trajectory_context(_shown_assignment(item), _part_url(item)),
    }
    return render(request, "annotation/review.html", context, status=422 if form.is_bound else 200)


@fragment_of(lambda queue_id, item_id, **_: reverse("annotation:review_item", args=[queue_id, item_id]))
@at_least(Role.REVIEWER)
@require_safe
def rows(request: HtmxRequest, queue_id: UUID, item_id: int, start: int) -> HttpResponse:
    """A few rows of the pair, or steps of the trajectory, opened."""
    item = get_object_or_404(queries.items_of(visible_queue(request, queue_id)), pk=item_id)
    enter_long(request, steps=item.step_count)
    kind = kind_of(item)
    return render(request, kind.rows_template, kind.rows_shown(_shown_assignment(item), _part_url(item), start))


@at_least(Role.REVIEWER)
@require_safe
def part(request: HtmxRequest, queue_id: UUID, item_id: int, side: str, index: int) -> HttpResponse:
    """Long content of a step, on demand."""
    item = get_object_or_404(queries.items_of(visible_queue(request, queue_id)), pk=item_id)
    trajectory = kind_of(item).trajectory_at(_shown_assignment(item), side)
    if trajectory is None:
        raise Http404
    back = reverse("annotation:review_item", args=[queue_id, item_id])
    return answer_part(request, trajectory, index, url=request.path, back=back, name=side)


@require_POST
def remark(request: HtmxRequest, queue_id: UUID, item_id: int, annotator_id: UUID) -> HttpResponse:
    """Add a remark: by a reviewer to an annotator, or by annotators about their own judgments only."""
    queue = visible_queue(request, queue_id)
    items = Item.objects.filter(queue=queue)
    if not request.member.is_reviewer:  # the full response would reveal how many items there are
        items = items.filter(pk__in=Assignment.objects.of(request.member).values("item"))
    item = get_object_or_404(items, pk=item_id)
    annotator = get_object_or_404(Annotator, workspace=request.member.workspace_id, pk=annotator_id)
    is_own = annotator.user_id == request.member.user_id
    if not (is_own or request.member.is_reviewer):
        raise Http404
    form = RemarkForm(request.POST)
    try:
        if not form.is_valid():
            raise Refusal(" ".join(map(str, form.errors["text"])))
        adjudication.remark(item=item, annotator=annotator, by=request.user, text=form.cleaned_data["text"])
        messages.success(request, "Sent." if is_own else f"{annotator} reads it on their own page of this queue.")
    except Refusal as refusal:
        messages.error(request, str(refusal))
    if is_own and annotator == annotator_of(request.member):
        return redirect("annotation:mine", queue_id=queue.pk)
    return redirect("annotation:queue_item", queue_id=queue.pk, item_id=item.pk)


def _decision_on(request: HtmxRequest, item: Item) -> Adjudication | None:
    visible = Adjudication.objects.visible_to(request.member).valid()
    return visible.filter(item=item).select_related("by", "item").first()


def _shown_assignment(item: Item) -> Assignment:
    """An unsaved assignment for rendering the item to reviewers, with the same sides for everybody, derived from the item's id."""
    return Assignment(item=item, a_is_left=phrases.a_is_left_in_review(item))


def _part_url(item: Item) -> PartUrl:
    return lambda side, index: reverse("annotation:review_part", args=[item.queue_id, item.pk, side, index])
