"""Pages of queues: list, creation, and management."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation import queries
from apps.annotation.comments.queries import people_of_workspace
from apps.annotation.forms.queues import MAX_QUESTIONS_LENGTH, GuidelinesForm, QueueForm, builder_kinds
from apps.annotation.forms.settings import KnownForm
from apps.annotation.judges.judge_performance import model_answers
from apps.annotation.kinds import KINDS, PAIRWISE, kind_of
from apps.annotation.kinds.blindness import blind_to, is_on_desk
from apps.annotation.kinds.forms import question_fields
from apps.annotation.models import Adjudication, Item, Queue
from apps.annotation.models.items import open_items_of
from apps.annotation.phrases import a_is_left_in_review
from apps.annotation.queues import queue_lifecycle
from apps.annotation.queues.sources import Selection, preview_of
from apps.annotation.refusals import Refusal
from apps.annotation.review.adjudication import awaiting_review, remarks_in
from apps.annotation.views.visible import visible_queue
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.common.sorting import sorting_by
from apps.trajectories.filters import BadFilter
from apps.trajectories.models import Trajectory
from apps.trajectories.rendering import markdown
from contract.questions import BadQuestions, read

GUIDELINES = 2
"""The heading level above the guidelines."""
STEERING = {
    "pause": queue_lifecycle.pause_queue,
    "resume": queue_lifecycle.resume_queue,
    "close": queue_lifecycle.close_queue,
}


@require_safe
def queues(request: HtmxRequest) -> HttpResponse:
    """All queues for those who manage them; for annotators, those they can label."""
    rows = Queue.objects.visible_to(request.member)
    if not request.member.is_reviewer:
        rows = rows.for_desk()
    sorting = sorting_by(queries.QUEUE_COLUMNS, request.GET.get("sort", ""))
    page = page_of(rows, cursor=request.GET.get("cursor", ""), order=sorting.fields, size=30)
    context = {"page": page, "rows": queries.queue_rows(page.rows, request.member), "sorting": sorting}
    context["has_trajectories"] = Trajectory.objects.visible_to(request.member).exists  # lazy, only without queues
    return render(request, "annotation/queues.html", context)


@at_least(Role.RESEARCHER)
@require_http_methods(["GET", "HEAD", "POST"])
def new_queue(request: HtmxRequest) -> HttpResponse:
    """A queue from `trajectory` ids, or from everything that matches `filter` (a query string of the list of trajectories)."""
    query = request.POST if request.method == "POST" else request.GET
    selection = Selection.from_query(query)
    workspace = request.member.workspace
    form = (
        QueueForm(request.POST, workspace=workspace)
        if request.method == "POST"
        else QueueForm(workspace=workspace, initial={"name": _suggested_name(request)})
    )
    if request.method == "POST" and form.is_valid():
        try:
            queue = queue_lifecycle.create_queue(
                workspace=request.member.workspace,
                created_by=request.user,
                selection=selection,
                pairing=form.pairing(),
                **form.settings(),
            )
            return redirect("annotation:queue", queue_id=queue.pk)
        except (Refusal, BadFilter) as refusal:
            form.add_error(None, str(refusal))
    context = {
        "form": form,
        "selection": selection,
        "kinds_of_questions": builder_kinds(),
        **_preview(request, form, selection),
    }
    return render(request, "annotation/new_queue.html", context, status=422 if form.is_bound else 200)


@at_least(Role.RESEARCHER)
@require_POST
def preview(request: HtmxRequest) -> HttpResponse:
    """What the current state of the form would yield."""
    form = QueueForm(request.POST, workspace=request.member.workspace)
    form.is_valid()
    return render(request, "annotation/_preview.html", _preview(request, form, Selection.from_query(request.POST)))


@at_least(Role.RESEARCHER)
@require_POST
def preview_questions(request: HtmxRequest) -> HttpResponse:
    """The questions of a form as shown at the desk, or the first error in them."""
    kind = KINDS.get(request.POST.get("judged", ""), PAIRWISE)
    try:
        asks = kind.asks(questions=read(request.POST.get("questions", "")[:MAX_QUESTIONS_LENGTH], kind.asks.allowed))
    except BadQuestions as problem:
        return render(request, "annotation/_questions_preview.html", {"problem": str(problem)})
    return render(request, "annotation/_questions_preview.html", {"rows": question_fields(asks, {})})


def _preview(request: HtmxRequest, form: QueueForm, selection: Selection) -> dict[str, Any]:
    pairing = form.pairing()
    try:
        result = preview_of(request.member.workspace, selection, pairing, form.kind().name)
    except BadFilter as problem:
        return {"problem": str(problem)}
    overlap = form.overlap_of()
    return {
        "preview": result,
        "selection": selection,
        "pairing": pairing,
        "overlap": overlap,
        "judgments": result.items * overlap,
        "kind": form.kind(),
    }


def _suggested_name(request: HtmxRequest) -> str:
    return f"Queue {Queue.objects.visible_to(request.member).count() + 1}"


@require_safe
def queue(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """Progress, people, and settings. Redirects annotators to the desk, since the page shows others' judgments."""
    queue = get_object_or_404(Queue.objects.visible_to(request.member).select_related("created_by"), pk=queue_id)
    if not request.member.is_reviewer:
        return redirect("annotation:desk", queue_id=queue.pk)
    context = _context(queue) | {"people": queries.people_of(queue), "acts": queries.bulk_acts_of(queue)}
    return render(request, "annotation/queue.html", context)


@fragment_of(lambda queue_id, **_: reverse("annotation:queue", args=[queue_id]))
@at_least(Role.REVIEWER)
@require_safe
def progress(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The part of the queue's page that updates. The actions are included only when they change.

    Replacing them on every poll would remove the form behind an open confirmation dialog. When the queue's state changes, the whole page is reloaded.
    """
    queue = visible_queue(request, queue_id)
    context = _context(queue)
    shown = request.GET.get("shown", context["shown"])
    response = render(request, "annotation/_progress.html", context | {"oob": shown != context["shown"]})
    if shown.partition("-")[0] != queue.state:
        response["HX-Refresh"] = "true"
    return response


@at_least(Role.REVIEWER)
@require_safe
def items(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The items in their order, or only the disputed ones."""
    queue = visible_queue(request, queue_id)
    shown = request.GET.get("show", "")
    on_my_desk = open_items_of(request.member)
    rows = queries.items_of(queue)
    if shown == "disputed":
        rows = rows.filter(disputed=True).exclude(pk__in=on_my_desk)
    elif shown == "known":
        rows = rows.exclude(purpose=Item.Purpose.WORK)
    page = page_of(rows, cursor=request.GET.get("cursor", ""), order=("position",), size=50)
    decisions = Adjudication.objects.visible_to(request.member).valid()
    context = {
        "queue": queue,
        "kind": kind_of(queue),
        "page": page,
        "shown": shown,
        "judgments": queries.judgments_of_items(queue, page.rows, request.member),
        "blind_to": blind_to(page.rows, request.member),
        "decided": set(decisions.filter(item__in=page.rows).values_list("item_id", flat=True)),
        "assignees": queries.assignees_of(page.rows),
        "acts": queries.bulk_acts_of(queue),
        "members": people_of_workspace(request.member) if request.member.is_researcher else [],
        "on_my_desk": set(on_my_desk.filter(queue=queue)),
        "undecided": shown == "disputed" and awaiting_review(queue).exists(),
    }
    return render(request, "annotation/items.html", context)


@at_least(Role.REVIEWER)
@require_safe
def item(request: HtmxRequest, queue_id: UUID, item_id: int) -> HttpResponse:
    """One item: its judgments and, for gold and onboarding items, the known answer."""
    queue = visible_queue(request, queue_id)
    shown = get_object_or_404(queries.items_of(queue), pk=item_id)
    judgments = queries.judgments_of_items(queue, [shown], request.member).get(shown.pk, [])
    is_mine = is_on_desk(shown, request.member)
    is_blind = bool(blind_to([shown], request.member))
    a_is_left = a_is_left_in_review(shown)
    decisions = Adjudication.objects.visible_to(request.member).valid()
    context = {
        "queue": queue,
        "item": shown,
        "judgments": judgments,
        "judged_by_people": any(judgment.annotator.user_id for judgment in judgments),
        "is_on_my_desk": is_mine,
        "is_blind": is_blind,
        "kind": kind_of(queue),
        "a_is_left": a_is_left,
        "model_answers": []
        if is_mine or is_blind
        else model_answers(shown.pk, a_is_left=a_is_left or request.member.is_researcher),
        "decision": decisions.filter(item=shown).select_related("by", "item").first(),
        "remarks": shown.remarks.select_related("by", "annotator").order_by("pk"),
        "known_form": KnownForm(queue=queue, initial=_known_answer_initial(shown)),
    }
    return render(request, "annotation/item.html", context)


def _known_answer_initial(item: Item) -> dict[str, Any]:
    if item.known is None:
        return {}
    answer = kind_of(item).known_answer_field_value(item.known["answer"])
    return {"purpose": item.purpose, "answer_given": answer, "because": item.known.get("because", "")}


@fragment_of(lambda trajectory_id, **_: reverse("trajectories:detail", args=[trajectory_id]) + "#judgments")
@at_least(Role.REVIEWER)
@require_safe
def judgments_of(request: HtmxRequest, trajectory_id: UUID) -> HttpResponse:
    """The judgments of one trajectory, for its page."""
    trajectory = get_object_or_404(Trajectory.objects.visible_to(request.member).only("id"), pk=trajectory_id)
    judgments = queries.judgments_of_trajectory(request.member, trajectory.pk)
    context = {"judgments": judgments, "remarks": remarks_in(judgments), "run": trajectory.pk}
    return render(request, "annotation/_judgments.html", context)


@at_least(Role.RESEARCHER)
@require_http_methods(["GET", "HEAD", "POST"])
def guidelines(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The guidelines and their history; saving a change adds a version."""
    queue = visible_queue(request, queue_id)
    latest = queries.latest_guideline(queue)
    form = GuidelinesForm(request.POST or None, initial={"text": latest.text if latest else ""})
    if request.method == "POST" and form.is_valid():
        saved = queue_lifecycle.revise_guidelines(queue=queue, text=form.cleaned_data["text"], by=request.user)
        messages.success(request, f"The guidelines are now version {saved.version}.")
        return redirect("annotation:queue", queue_id=queue.pk)
    versions = queue.guidelines.select_related("created_by").order_by("-version")
    context = {
        "queue": queue,
        "form": form,
        "latest": latest,
        "versions": versions,
        "html": markdown.render(latest.text, under=GUIDELINES) if latest else "",
    }
    return render(request, "annotation/guidelines.html", context, status=422 if request.method == "POST" else 200)


@at_least(Role.RESEARCHER)
@require_POST
def preview_guidelines(request: HtmxRequest) -> HttpResponse:
    """The form's Markdown rendered as annotators will see it."""
    return render(
        request,
        "annotation/_guidelines_preview.html",
        {"html": markdown.render(request.POST.get("text", "")[:100_000], under=GUIDELINES)},
    )


@at_least(Role.RESEARCHER)
@require_POST
def steer(request: HtmxRequest, queue_id: UUID, action: str) -> HttpResponse:
    """Pause, resume, or close."""
    queue = visible_queue(request, queue_id)
    try:
        STEERING[action](queue=queue, by=request.user)
    except Refusal as refusal:
        messages.error(request, str(refusal))
    return redirect("annotation:queue", queue_id=queue.pk)


def _context(queue: Queue) -> dict[str, Any]:
    guideline = queries.latest_guideline(queue)
    totals = queries.totals_of(queue)
    return {
        "queue": queue,
        "kind": kind_of(queue),
        "totals": totals,
        "shown": f"{queue.state}-{totals.judged >= totals.slots:d}-{bool(totals.annotators):d}",
        "guideline": guideline,
        "guidelines_html": markdown.render(guideline.text, under=GUIDELINES) if guideline else "",
        "source": queries.source_of(queue),
    }
