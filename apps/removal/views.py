"""The page that says what a deletion would take along, and the one of a deletion that was asked for."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.http import HtmxRequest
from apps.removal import deletion, removal_job
from apps.removal.models import Removal


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def confirm(request: HtmxRequest, thing: str, target_id: UUID) -> HttpResponse:
    """What would go, or what rests on it; sent, it is asked for."""
    if thing not in Removal.Thing.values:
        raise Http404
    target = deletion.target_of(thing, target_id, request.member.workspace)
    if target is None:
        raise Http404
    if request.method == "POST":
        try:
            removal = removal_job.ask_for_removal(thing=thing, target=target, by=request.member)
            return redirect("removal:removal", removal_id=removal.pk)
        except deletion.StillNeeded:
            messages.error(request, "Something rests on it, so nothing was deleted.")
    context = {"thing": Removal.Thing(thing), "outlook": deletion.outlook(target), "page": deletion.page_of(target)}
    return render(request, "removal/confirm.html", context, status=409 if request.method == "POST" else 200)


@require_safe
@at_least(Role.RESEARCHER)
def removal(request: HtmxRequest, removal_id: UUID) -> HttpResponse:
    """How a deletion does."""
    found = get_object_or_404(Removal.objects.visible_to(request.member).select_related("created_by"), pk=removal_id)
    context = {"removal": found, "list_page": deletion.LISTS[found.thing]}
    return render(request, "removal/removal.html", context)
