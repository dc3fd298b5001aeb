"""Pages of traffic splits: the list, one split with its arms' figures, and the forms to create and change one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.common.sorting import by_age, sorting_by
from apps.gateway.addresses import base_url_of
from apps.gateway.forms import ArmsForm, NewSplitForm
from apps.gateway.splits import changes
from apps.gateway.splits.figures import figures_of
from apps.gateway.splits.models import TrafficSplit, shares
from apps.policies import promotions

SPLIT_COLUMNS = (by_age("Created"),)
COMMAND = """curl {url} \\
  --header "Authorization: Bearer $RETRACE_TOKEN" \\
  --header "Content-Type: application/json" \\
  --data '{{"split": "{name}", "task": {{"instruction": "…"}}}}'"""


@require_safe
@at_least(Role.RESEARCHER)
def splits(request: HtmxRequest) -> HttpResponse:
    """All traffic splits, newest first."""
    sorting = sorting_by(SPLIT_COLUMNS, request.GET.get("sort", ""))
    visible = TrafficSplit.objects.visible_to(request.member).prefetch_related("arms__policy")
    page = page_of(visible, cursor=request.GET.get("cursor", ""), order=sorting.fields, size=30)
    rows = [(split, _shares(split)) for split in page.rows]
    return render(request, "gateway/splits.html", {"page": page, "rows": rows, "sorting": sorting})


@require_safe
@at_least(Role.RESEARCHER)
def split(request: HtmxRequest, split_id: UUID) -> HttpResponse:
    """The figures of its arms."""
    split = _find(request, split_id)
    champion = promotions.champion(workspace=split.workspace, environment=split.environment)
    context = {
        "split": split,
        "figures": figures_of(split),
        "champion": champion,
        "base_url": base_url_of(request),
        "command": COMMAND.format(url=request.build_absolute_uri("/api/v1/sessions"), name=split.name),
    }
    return render(request, "gateway/split.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
@needs_recent_sign_in("make a traffic split")
def new_split(request: HtmxRequest) -> HttpResponse:
    """Create a split from its name and arms."""
    form = NewSplitForm(request.POST or None, member=request.member)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            split = changes.create_split(
                workspace=request.member.workspace,
                arms=form.plans,
                by=request.user,
                **{name: data[name] for name in ("name", "environment", "champion", "unit")},
            )
        except changes.SplitRefused as refusal:
            form.refuse(refusal.field, str(refusal))
        else:
            messages.success(request, f"Agents can now request {split.name}.")
            return redirect("gateway:split", split.pk)
    return render(request, "gateway/new_split.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
@needs_recent_sign_in("change a traffic split")
def change_split(request: HtmxRequest, split_id: UUID) -> HttpResponse:
    """Change the arms for new sessions."""
    split = _find(request, split_id)
    form = ArmsForm(request.POST or None, member=request.member, split=split)
    if request.method == "POST" and form.is_valid():
        try:
            data = form.cleaned_data
            changes.change_split(split=split, arms=form.plans, unit=data["unit"], by=request.user, seen=data["seen"])
        except changes.SplitRefused as refusal:
            form.refuse(refusal.field, str(refusal))
        else:
            messages.success(request, "New sessions have these shares. Open ones keep their policy.")
            return redirect("gateway:split", split.pk)
    status = 422 if form.errors else 200
    return render(request, "gateway/change_split.html", {"form": form, "split": split}, status=status)


@require_POST
@at_least(Role.RESEARCHER)
def switch_split(request: HtmxRequest, split_id: UUID) -> HttpResponseBase:
    """Turn it on or off, without a recent sign-in: off must be immediate, and either way sessions only go to policies chosen before."""
    split = _find(request, split_id)
    is_on = request.POST.get("is_on") == "yes"
    changes.switch(split=split, is_on=is_on, by=request.user)
    messages.success(request, f"{split} is on again." if is_on else "Off: the champion answers every new session.")
    return redirect("gateway:split", split.pk)


@require_POST
@at_least(Role.RESEARCHER)
def remove_split(request: HtmxRequest, split_id: UUID) -> HttpResponseBase:
    """Remove a split that no session has used."""
    split = _find(request, split_id)
    try:
        changes.remove_split(split=split, by=request.user)
    except changes.InUse as refusal:
        messages.error(request, str(refusal))
        return redirect("gateway:split", split.pk)
    messages.success(request, f"{split.name} is removed.")
    return redirect("gateway:splits")


def _find(request: HtmxRequest, split_id: UUID) -> TrafficSplit:
    visible = TrafficSplit.objects.visible_to(request.member).select_related("workspace", "created_by")
    return get_object_or_404(visible, pk=split_id)


def _shares(split: TrafficSplit) -> Any:
    return list(shares(sorted(split.arms.all(), key=lambda arm: arm.pk)).items())
