"""Pages to manage a queue: its settings, its items' known answers, and single annotators."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.access import at_least
from apps.accounts.models import Role, User
from apps.annotation.forms.queues import builder_kinds
from apps.annotation.forms.settings import DrawGoldForm, KnownForm, ReasonForm, SettingsForm
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Item, Queue
from apps.annotation.queues import known_answers
from apps.annotation.queues.question_changes import answered
from apps.annotation.queues.settings import change_settings, pause_annotator, resume_annotator, retrain_annotator
from apps.annotation.refusals import Refusal
from apps.annotation.views.visible import visible_queue
from apps.common.http import HtmxRequest


@at_least(Role.RESEARCHER)
@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """Annotators, gold and onboarding, end, leases."""
    queue = visible_queue(request, queue_id)
    form = SettingsForm(request.POST or None, queue=queue)
    if request.method == "POST" and form.is_valid():
        try:
            saved = change_settings(queue=queue, settings=form.settings(), by=request.user)
            messages.success(request, _saved(queue, saved))
            return redirect("annotation:settings", queue_id=queue.pk)
        except Refusal as refusal:
            form.add_error(None, str(refusal))
    answers = answered(queue, kind_of(queue).asked(queue).questions)
    context = {
        "queue": queue,
        "kind": kind_of(queue),
        "form": form,
        "gold_form": DrawGoldForm(),
        "kinds_of_questions": builder_kinds(),
        "answered": json.dumps(answers) if answers else "",
    }
    return render(request, "annotation/settings.html", context, status=422 if form.is_bound else 200)


def _saved(before: Queue, after: Queue) -> str:
    """The message after saving. Adding slots doesn't reopen a queue that was paused, closed, or has ended."""
    if after.overlap > before.overlap and after.state in (Queue.State.PAUSED, Queue.State.CLOSED):
        return f"Saved. The queue is {after.get_state_display().lower()}; its new slots are assigned once it is open again."
    return "Saved. The changes apply from now on."


@at_least(Role.RESEARCHER)
@require_POST
def draw_gold(request: HtmxRequest, queue_id: UUID) -> HttpResponse:
    """Make items with known outcomes gold."""
    queue = visible_queue(request, queue_id)
    form = DrawGoldForm(request.POST)
    if form.is_valid():
        _act(request, lambda: _drawn(queue, form.cleaned_data["count"], request.user))
    else:
        messages.error(request, "Give a number from 1 to 1,000.")
    return redirect("annotation:settings", queue_id=queue.pk)


def _drawn(queue: Queue, count: int, by: User) -> str:
    drawn = known_answers.draw_gold(queue=queue, count=count, by=by)
    return f"{drawn} item{'s are' if drawn != 1 else ' is'} gold now."


@at_least(Role.RESEARCHER)
@require_POST
def known(request: HtmxRequest, queue_id: UUID, item_id: int) -> HttpResponse:
    """Set or remove an item's known answer."""
    queue = visible_queue(request, queue_id)
    item = get_object_or_404(Item, queue=queue, pk=item_id)
    form = KnownForm(request.POST, queue=queue)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
    else:
        _act(request, lambda: _made_known(item, form, request.user))
    return redirect("annotation:queue_item", queue_id=queue.pk, item_id=item.pk)


def _made_known(item: Item, form: KnownForm, by: User) -> str:
    purpose = Item.Purpose(form.cleaned_data["purpose"])
    if purpose == Item.Purpose.WORK:
        known_answers.make_work(item=item, by=by)
        return "It's an ordinary item again."
    because = form.cleaned_data["because"]
    known_answers.make_known(item=item, purpose=purpose, answer=form.answer(), because=because, by=by)
    return "It's a gold item now." if purpose == Item.Purpose.GOLD else "It's an onboarding item now."


def _pause(queue: Queue, annotator: Annotator, reason: str, by: User) -> str:
    pause_annotator(queue=queue, annotator=annotator, reason=reason, by=by)
    return f"{annotator} gets no more items here until you resume them."


def _resume(queue: Queue, annotator: Annotator, _: str, by: User) -> str:
    resume_annotator(queue=queue, annotator=annotator, by=by)
    return f"{annotator} can go on."


def _retrain(queue: Queue, annotator: Annotator, _: str, by: User) -> str:
    retrain_annotator(queue=queue, annotator=annotator, by=by)
    return f"{annotator} does the onboarding items next."


ASKS = {"pause": _pause, "resume": _resume, "retrain": _retrain}


@at_least(Role.RESEARCHER)
@require_POST
def ask(request: HtmxRequest, queue_id: UUID, annotator_id: UUID, action: str) -> HttpResponse:
    """Pause or resume an annotator here, or send them back to the onboarding items."""
    queue = visible_queue(request, queue_id)
    annotator = get_object_or_404(Annotator.objects.visible_to(request.member), pk=annotator_id)
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    _act(request, lambda: ASKS[action](queue, annotator, reason, request.user))
    return redirect("annotation:person", queue_id=queue.pk, annotator_id=annotator.pk)


def _act(request: HtmxRequest, act: Callable[[], str]) -> None:
    """Run `act` and show its message, or the refusal."""
    try:
        messages.success(request, act())
    except Refusal as refusal:
        messages.error(request, str(refusal))
