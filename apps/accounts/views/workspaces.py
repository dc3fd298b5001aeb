"""A user's workspaces: listing, entering, creating, and leaving them."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import membership_changes
from apps.accounts.forms import WorkspaceForm
from apps.accounts.membership import current_membership, enter
from apps.accounts.models import Membership
from apps.common.http import HtmxRequest, next_url


@require_safe
def workspaces(request: HtmxRequest) -> HttpResponse:
    template = "accounts/_workspace_list.html" if request.htmx else "accounts/workspaces.html"
    return render(request, template, _page(request, WorkspaceForm()))


@require_POST
def switch(request: HtmxRequest, workspace_id: UUID) -> HttpResponse:
    membership = get_object_or_404(Membership, user=request.user, workspace=workspace_id)
    enter(session=request.session, membership=membership)
    return redirect(next_url(request, otherwise=resolve_url("home")))


@require_POST
def found(request: HtmxRequest) -> HttpResponse:
    if not request.user.may_found:
        raise Http404
    form = WorkspaceForm(request.POST)
    if not form.is_valid():
        return render(request, "accounts/workspaces.html", _page(request, form), status=422)
    membership = membership_changes.found_workspace(name=form.cleaned_data["name"], owner=request.user)
    enter(session=request.session, membership=membership)
    messages.success(request, f"You are in {membership.workspace}, as its owner.")
    return redirect("home")


@require_POST
def leave(request: HtmxRequest, workspace_id: UUID) -> HttpResponse:
    membership = get_object_or_404(
        Membership.objects.select_related("workspace", "user"), user=request.user, workspace=workspace_id
    )
    try:
        membership_changes.remove(membership=membership, by=request.user)
        messages.success(request, f"You left {membership.workspace}.")
    except (membership_changes.LastOwner, membership_changes.NoMember) as refusal:
        messages.error(request, str(refusal))
    return redirect("accounts:workspaces")


def _page(request: HtmxRequest, form: WorkspaceForm) -> dict[str, Any]:
    memberships = (
        Membership.objects.filter(user=request.user)
        .select_related("workspace")
        .annotate(people=Count("workspace__memberships"))
        .order_by("workspace__name", "pk")
    )
    return {"memberships": memberships, "current": current_membership(request.user, request.session), "form": form}
