"""Continuations at the desk: sample a policy's actions at a step, or let it continue after a correction. Requested, then polled."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.accounts.models import Role
from apps.annotation.desk import continuations
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.corrections import check_action, tools_of
from apps.annotation.kinds.questions import Alternatives
from apps.annotation.models import Assignment, Continuation
from apps.annotation.refusals import BadAction
from apps.annotation.views.desk import acting, own_with_trajectories
from apps.common.http import HtmxRequest
from apps.jobs.models import JobState
from apps.jobs.waits import wait_of
from apps.trajectories.models import Step, Trajectory
from apps.trajectories.queries import heads_of


@acting
def alternatives(request: HtmxRequest, assignment_id: UUID, index: int) -> HttpResponse:
    """Request sampled actions at a step; repeated requests return the same ones."""
    assignment, asks = _asking(request, assignment_id)
    return _status(
        request, assignment, continuations.sample_actions(trajectory=assignment.item.a, index=index, asks=asks)
    )


@acting
def run_on(request: HtmxRequest, assignment_id: UUID, index: int) -> HttpResponse:
    """Have a policy continue after the correction `message`."""
    assignment, asks = _asking(request, assignment_id)
    trajectory = assignment.item.a
    try:
        message = json.loads(request.POST.get("message", ""))
    except (ValueError, RecursionError):
        raise BadAction from None
    before = get_object_or_404(Step.objects.only("message"), trajectory=trajectory, index=index)
    check_action(message, tools_of(trajectory.tools, before.message))
    return _status(
        request,
        assignment,
        continuations.continue_from_action(trajectory=trajectory, index=index, action=message, asks=asks),
    )


@require_safe
def status(request: HtmxRequest, assignment_id: UUID, continuation_id: UUID) -> HttpResponse:
    """The continuation's progress and, at the end, its result."""
    assignment, _ = _asking(request, assignment_id)
    continuations = Continuation.objects.filter(trajectory=assignment.item.a).select_related("branch")
    return _status(request, assignment, get_object_or_404(continuations, pk=continuation_id))


def _asking(request: HtmxRequest, assignment_id: UUID) -> tuple[Assignment, Alternatives]:
    assignment = own_with_trajectories(request, assignment_id)
    kind = kind_of(assignment.queue)
    asks = kind.alternatives(kind.asked(assignment.queue))
    if asks is None:
        raise Http404
    return assignment, asks


def _status(request: HtmxRequest, assignment: Assignment, continuation: Continuation) -> JsonResponse:
    wait = wait_of(continuation, role=Role(request.member.role))
    working = "The policy is working" if continuation.is_active else ""
    data: dict[str, Any] = {
        "url": reverse("annotation:continuation", args=[assignment.pk, continuation.pk]),
        "active": continuation.is_active,
        "words": wait.text if wait else working,
        "done": continuation.done,
        "count": continuation.count,
        "error": _problem(continuation, is_blind=not request.member.is_researcher),
    }
    if continuation.state == JobState.DONE and continuation.action is None:
        data |= {"messages": continuation.messages, "policy": str(continuation.policy_id)}
    elif continuation.state == JobState.DONE:
        data |= _ending(continuation.branch, continuation.index)
    return JsonResponse(data)


def _problem(continuation: Continuation, *, is_blind: bool) -> str:
    """Why it failed; empty if it didn't. A server's own error text may name the model, and a worker's where it is."""
    if not continuation.error or not is_blind:
        return continuation.error
    return "The policy gave no answer here. Try again later, or write the action yourself."


def _ending(branch: Trajectory | None, index: int) -> dict[str, Any]:
    """A branch's steps from the correction on, one line each, and its outcome."""
    if branch is None:
        return {"error": "The trajectory that continued from here was deleted."}
    lines = [f"{head.number}  {head.tool} {head.headline}".rstrip() for head in heads_of(branch)[index:]]
    ended = f"It ended: {branch.termination}."
    if branch.success is not None:
        ended = "It did what was asked." if branch.success else "It didn't do what was asked."
    return {"lines": lines, "ended": ended, "success": branch.success}
