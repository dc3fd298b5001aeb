"""What all requests of the desk share: whose assignment it is, and how a refusal is answered."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from apps.annotation.models import Assignment
from apps.annotation.refusals import Refusal
from apps.common.http import HtmxRequest

P = ParamSpec("P")


def acting(
    view: Callable[Concatenate[HtmxRequest, P], HttpResponse],
) -> Callable[Concatenate[HtmxRequest, P], HttpResponse]:
    """A refusal is an answer, not an error: 409 with its name and what to do."""

    def act(request: HtmxRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Refusal as refusal:
            if wants_json(request):
                return JsonResponse({"code": refusal.code, "detail": str(refusal)}, status=409)
            messages.error(request, str(refusal))
            return redirect(request.headers.get("Referer") or "annotation:queues")

    update_wrapper(act, view)
    return require_POST(act)


def wants_json(request: HtmxRequest) -> bool:
    return request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def own(request: HtmxRequest, assignment_id: UUID) -> Assignment:
    """An assignment of this very person. A researcher, too, sees only their own here: others' are blind."""
    return get_object_or_404(Assignment.objects.of(request.member).select_related("queue"), pk=assignment_id)


def own_with_runs(request: HtmxRequest, assignment_id: UUID) -> Assignment:
    return get_object_or_404(Assignment.objects.of(request.member).with_runs(), pk=assignment_id)


def desk_of(assignment_id: UUID, **_: object) -> str:
    """The address of the desk that an assignment lies on."""
    return reverse(
        "annotation:desk", args=[Assignment.objects.values_list("queue_id", flat=True).get(pk=assignment_id)]
    )
