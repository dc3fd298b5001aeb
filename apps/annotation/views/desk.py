"""The desk: one item at a time, and the annotator's actions on it.

Its script uses JSON; without JavaScript, the same forms are posted and the response is the desk again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.membership import current_membership
from apps.accounts.models import Membership
from apps.annotation.desk import actions, assignments
from apps.annotation.desk.assignments import annotator_of
from apps.annotation.desk.known_answers import feedback_text, lesson_of
from apps.annotation.desk.layouts import arrangement_of
from apps.annotation.forms.settings import ReasonForm
from apps.annotation.judges.judge_performance import model_answers
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.blindness import shows_models
from apps.annotation.kinds.kind import PartUrl
from apps.annotation.models import Annotator, Assignment, Queue
from apps.annotation.queries import desk_progress, latest_guideline
from apps.annotation.refusals import AlreadyJudged, AlreadySkipped, PlaceLost, QueueNotOpen, Refusal, TakenBack
from apps.common.compiled_queries import CompiledQuery
from apps.common.fair_share import enter_long
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest, page_before
from apps.common.ids import parsed_id
from apps.common.limits import TooManyTries
from apps.trajectories.content_responses import answer_part
from apps.trajectories.rendering import markdown

P = ParamSpec("P")
BESIDES = 30
ELSEWHERE = "You are in another workspace. Return to this queue's workspace; nothing is lost."
GONE = "This no longer exists, or you no longer have access to it."
GUIDELINES = 2
"""The heading level above the guidelines."""


def acting(
    view: Callable[Concatenate[HtmxRequest, P], HttpResponse],
) -> Callable[Concatenate[HtmxRequest, P], HttpResponse]:
    """Turns a refusal into a 409 response with its name and advice.

    The desk's script keeps an answer until the server has accepted or refused it, so to the script, a 404 is JSON, unlike that of a proxy whose server
    is restarting; and it's a 403, which is temporary, while the person is in another of their workspaces.
    """

    def act(request: HtmxRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Refusal as refusal:
            if wants_json(request):
                return JsonResponse({"code": refusal.code, "detail": str(refusal)}, status=409)
            messages.error(request, str(refusal))
            return redirect(page_before(request, otherwise=reverse("annotation:queues")))
        except Http404:
            if not wants_json(request):
                raise
            if _is_elsewhere(request, **kwargs):
                return JsonResponse({"code": "elsewhere", "detail": ELSEWHERE}, status=403)
            return JsonResponse({"code": "gone", "detail": GONE}, status=404)

    update_wrapper(act, view)
    return require_POST(act)


def _is_elsewhere(request: HtmxRequest, *, assignment_id: Any = None, queue_id: Any = None, **_: object) -> bool:
    """Whether this is on the person's desk in a workspace of theirs other than the current one."""
    current = current_membership(request.user, request.session)
    return any(
        Assignment.objects.of(other).filter(pk=assignment_id).exists()
        or Queue.objects.visible_to(other).filter(pk=queue_id).exists()
        for other in request.user.own_memberships
        if other != current
    )


def wants_json(request: HtmxRequest) -> bool:
    return request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def own(request: HtmxRequest, assignment_id: UUID) -> Assignment:
    """An assignment of this person. Researchers, too, can only open their own here, since others' are blind."""
    return _of_member(_OWN, request, assignment_id)


def own_with_trajectories(request: HtmxRequest, assignment_id: UUID) -> Assignment:
    return get_object_or_404(Assignment.objects.of(request.member).with_trajectories(), pk=assignment_id)


def _of_member(query: CompiledQuery[Assignment], request: HtmxRequest, assignment_id: UUID) -> Assignment:
    member = request.member
    assignment = query.first(pk=assignment_id, workspace=member.workspace_id, user=member.user_id)
    if assignment is None:
        raise Http404
    return assignment


_OWN = CompiledQuery(
    lambda pk, workspace, user: (
        Assignment.objects.of(Membership(workspace_id=workspace, user_id=user))
        .select_related("queue", "annotator")
        .defer("queue__selection")
        .filter(pk=pk)
    ),
    pk=UUID,
    workspace=UUID,
    user=int,
)
_SHOWN = CompiledQuery(
    lambda pk, workspace, user: (
        Assignment.objects.of(Membership(workspace_id=workspace, user_id=user))
        .with_trajectories(has_queue=True)
        .filter(pk=pk)
    ),
    pk=UUID,
    workspace=UUID,
    user=int,
)


def desk_of(assignment_id: UUID, **_: object) -> str:
    """The URL of the desk that an assignment is on."""
    return reverse(
        "annotation:desk", args=[Assignment.objects.values_list("queue_id", flat=True).get(pk=assignment_id)]
    )


@require_safe
def desk(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The item to judge now. Reading this page assigns one if there is none, which is only a lease."""
    queue = _queue(request, queue_id)
    annotator = annotator_of(request.member)
    stopped = ""
    try:
        assignment = _current(queue, annotator)
    except QueueNotOpen as refusal:
        assignment, stopped = None, str(refusal)
    context = {"queue": queue, "kind": kind_of(queue), "progress": desk_progress(queue, annotator), "stopped": stopped}
    context |= {"arrangement": arrangement_of(queue, request.user), **_guidelines(queue)}
    if assignment:
        context |= _item(request, own_with_trajectories(request, assignment.pk))
    return render(request, "annotation/desk.html", context)


def _current(queue: Queue, annotator: Annotator) -> Assignment | None:
    """The item to work on now, with its lease renewed; the next one if it was dealt with in another tab meanwhile. Raises QueueNotOpen."""
    while (assignment := assignments.next_assignment(queue=queue, annotator=annotator)) is not None:
        with suppress(AlreadyJudged, AlreadySkipped, TakenBack, PlaceLost):
            return actions.keep(assignment=assignment)
    return None


@acting
def next_item(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The next item, in one round trip; the browser preloads it while the person judges another. `besides`: the items it already has."""
    return JsonResponse(_next(request, _queue(request, queue_id), annotator_of(request.member)))


@fragment_of(desk_of)
@require_safe
def item(request: HtmxRequest, assignment_id: UUID) -> HttpResponse:
    """The item and its answer bar, rendered to replace another item."""
    context = _whole_item(request, own_with_trajectories(request, assignment_id))
    return render(request, context["item_template"], context)


@fragment_of(desk_of)
@require_safe
def rows(request: HtmxRequest, assignment_id: UUID, start: int) -> HttpResponse:
    """A few rows of an item, opened."""
    assignment = own_with_trajectories(request, assignment_id)
    enter_long(request, steps=assignment.item.step_count)
    kind = kind_of(assignment.queue)
    rows = kind.rows_shown(assignment, _part_url(assignment), start)
    return render(request, kind.rows_template, {**rows, "labels_steps": kind.labels_steps})


@require_safe
def part(request: HtmxRequest, assignment_id: UUID, side: str, index: int) -> HttpResponse:
    """Long content of a step, on demand. Its URL contains the side but nothing about the trajectory."""
    assignment = own_with_trajectories(request, assignment_id)
    trajectory = kind_of(assignment.queue).trajectory_at(assignment, side)
    if trajectory is None:
        raise Http404
    return answer_part(request, trajectory, index, url=request.path, back=desk_of(assignment_id), name=side)


@acting
def judge(request: HtmxRequest, assignment_id: UUID) -> HttpResponse:
    assignment = own(request, assignment_id)
    kind = kind_of(assignment.queue)
    form = kind.form(request.POST, asks=kind.asked(assignment.queue))
    if not form.is_valid():
        return _invalid(request, assignment, form)
    actions.record(assignment=assignment, answer=form.to_answer(assignment), **form.time_and_guidelines())
    lesson = lesson_of(assignment)
    if lesson and not wants_json(request):
        messages.info(request, feedback_text(lesson))
    return _done(request, assignment, **({"taught": feedback_text(lesson)} if lesson else {}))


@acting
def draft(request: HtmxRequest, assignment_id: UUID) -> HttpResponse:
    assignment = own(request, assignment_id)
    kind = kind_of(assignment.queue)
    form = kind.draft_form(request.POST, asks=kind.asked(assignment.queue))
    if not form.is_valid():
        return _invalid(request, assignment, form)
    actions.save_draft(assignment=assignment, draft=form.cleaned_data)
    return JsonResponse({})


@acting
def skip(request: HtmxRequest, assignment_id: UUID) -> HttpResponse:
    assignment = own(request, assignment_id)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _invalid(request, assignment, form)
    actions.skip(assignment=assignment, **form.cleaned_data)
    return _done(request, assignment)


@acting
def flag(request: HtmxRequest, assignment_id: UUID) -> HttpResponse:
    assignment = own(request, assignment_id)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _invalid(request, assignment, form)
    actions.flag(assignment=assignment, flagged="lift" not in request.POST, **form.cleaned_data)
    return _done(request, assignment)


@acting
def keep(request: HtmxRequest, assignment_id: UUID) -> HttpResponse:
    """The browser reports that this item is on screen and its person active.

    Losing the item isn't an error in the response, since an answer sent a moment later may have arrived first.
    """
    try:
        assignment = actions.keep(assignment=own(request, assignment_id))
    except Refusal as refusal:
        return JsonResponse({"code": refusal.code, "detail": str(refusal)})
    return JsonResponse({"leased_until": assignment.leased_until})


@acting
def undo(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    queue = _queue(request, queue_id)
    annotator = annotator_of(request.member)
    assignment = actions.undo_last(queue=queue, annotator=annotator)
    message = actions.undo_message(assignment)
    if not wants_json(request):
        messages.info(request, message)
        return redirect("annotation:desk", queue_id=queue.pk)
    progress = desk_progress(queue, annotator).to_json()
    return JsonResponse({"item": _item_url(assignment), "words": message, "progress": progress})


@acting
def leave(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """The browser leaves the desk: items loaded ahead are freed."""
    assignments.release_ahead(queue=_queue(request, queue_id), annotator=annotator_of(request.member))
    return JsonResponse({})


def _queue(request: HtmxRequest, queue_id: UUID) -> Queue:
    return get_object_or_404(Queue.objects.visible_to(request.member).for_desk(), pk=queue_id)


def _next(request: HtmxRequest, queue: Queue, annotator: Annotator) -> dict[str, Any]:
    """The next item, rendered, and the queue's progress. Raises Refusal."""
    besides = [pk for text in request.POST.getlist("besides")[:BESIDES] if (pk := parsed_id(text))]
    assignment = assignments.next_assignment(queue=queue, annotator=annotator, besides=besides)
    progress = desk_progress(queue, annotator).to_json()
    if assignment is None:
        return {"item": None, "progress": progress}
    shown = _of_member(_SHOWN, request, assignment.pk)
    shown.queue = queue
    context = _whole_item(request, shown)
    markup = render_to_string(context["item_template"], context, request)
    return {"item": _item_url(assignment), "markup": markup, "progress": progress}


def _after(request: HtmxRequest, assignment: Assignment) -> dict[str, Any]:
    """The next item, for a browser that requests it together with its answer.

    Empty if there is none now: the answer is stored whatever the queue's state, and the browser's own request then gets the reason.
    """
    if "next" not in request.POST:
        return {}
    try:
        following = _next(request, assignment.queue, assignment.annotator)
    except (Refusal, TooManyTries):
        return {}
    return {"next": following} if following["item"] else {}


def _whole_item(request: HtmxRequest, assignment: Assignment) -> dict[str, Any]:
    """Template context of an item that isn't on a page yet."""
    return {"queue": assignment.queue, "guideline": latest_guideline(assignment.queue), **_item(request, assignment)}


def _item(request: HtmxRequest, assignment: Assignment) -> dict[str, Any]:
    enter_long(request, steps=assignment.item.step_count)
    kind = kind_of(assignment.queue)
    models = model_answers(assignment.item_id, a_is_left=assignment.a_is_left) if shows_models(assignment) else []
    return {
        "assignment": assignment,
        "item_template": kind.template,
        "labels_steps": kind.labels_steps,
        "draft": assignment.draft,
        "model_answers": models,
        **kind.trajectory_context(assignment, _part_url(assignment)),
        **kind.answer_bar(assignment),
    }


def _part_url(assignment: Assignment) -> PartUrl:
    # Every step has one; only the end differs.
    address = reverse("annotation:part", args=[assignment.pk, "side", 0]).removesuffix("side/0/")
    return lambda side, index: f"{address}{side}/{index}/"


def _guidelines(queue: Queue) -> dict[str, Any]:
    guideline = latest_guideline(queue)
    return {
        "guideline": guideline,
        "guidelines_html": markdown.render(guideline.text, under=GUIDELINES) if guideline else "",
    }


def _item_url(assignment: Assignment) -> str:
    return reverse("annotation:item", args=[assignment.pk])


def _done(request: HtmxRequest, assignment: Assignment, **words: str) -> HttpResponse:
    if not wants_json(request):
        return redirect("annotation:desk", queue_id=assignment.queue_id)
    return JsonResponse({**words, **_after(request, assignment)})


def _invalid(request: HtmxRequest, assignment: Assignment, form: Form) -> HttpResponse:
    detail = " ".join(str(error) for errors in form.errors.values() for error in errors)
    if wants_json(request):
        return JsonResponse({"code": "invalid", "detail": detail}, status=422)
    messages.error(request, detail)
    return redirect("annotation:desk", queue_id=assignment.queue_id)
