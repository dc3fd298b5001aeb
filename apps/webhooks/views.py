"""Settings pages of webhooks: the destinations of a workspace's events, and the deliveries to each."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.webhooks import destinations as actions
from apps.webhooks.events import EventType
from apps.webhooks.forms import ChangeForm, DestinationForm
from apps.webhooks.models import Delivery, Destination


@require_safe
@at_least(Role.RESEARCHER)
def destinations(request: HtmxRequest) -> HttpResponse:
    return render(request, "webhooks/destinations.html", _page(request, DestinationForm()))


@require_POST
@never_cache
@at_least(Role.RESEARCHER)
@needs_recent_sign_in("send events to a new address")
def new(request: HtmxRequest) -> HttpResponse:
    """Responds with a page instead of a redirect, since the signing secret is shown only once and stored nowhere."""
    form = DestinationForm(request.POST)
    if form.is_valid():
        try:
            made = actions.create_destination(workspace=request.member.workspace, by=request.user, **form.cleaned_data)
            return _shown(request, made.destination, secret=made.secret)
        except actions.DestinationRefused as refusal:
            form.add_error(refusal.field, str(refusal))
    return render(request, "webhooks/destinations.html", _page(request, form), status=422)


@require_safe
def destination(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    return _shown(request, _find(request, webhook_id))


@require_POST
def change(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    found, form = _find(request, webhook_id), ChangeForm(request.POST)
    if not form.is_valid():
        return _shown(request, found, form=form, status=422)
    actions.change_destination(destination=found, by=request.user, **form.cleaned_data)
    messages.success(request, "Saved.")
    return redirect("webhooks:destination", found.pk)


@require_POST
@needs_recent_sign_in("turn a webhook on or off")
def turn(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    """Toggle between on and off."""
    found = _find(request, webhook_id)
    actions.change_destination(destination=found, by=request.user, is_on=not found.is_on)
    return redirect("webhooks:destination", found.pk)


@require_POST
@never_cache
@needs_recent_sign_in("rotate a signing secret")
def rotate(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    found = _find(request, webhook_id)
    try:
        secret = actions.rotate_secret(destination=found, by=request.user)
    except actions.DestinationRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("webhooks:destination", found.pk)
    found.refresh_from_db()
    return _shown(request, found, secret=secret)


@require_POST
def test(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    found = _find(request, webhook_id)
    try:
        actions.send_test(destination=found, by=request.user)
    except actions.IsOff as refusal:
        messages.error(request, str(refusal))
    return redirect("webhooks:destination", found.pk)


@require_POST
def remove(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    found = _find(request, webhook_id)
    actions.remove_destination(destination=found, by=request.user)
    messages.success(request, f"“{found.name}” is removed.")
    return redirect("webhooks:list")


@require_POST
def resend(request: HtmxRequest, delivery_id: UUID) -> HttpResponse:
    deliveries = Delivery.objects.visible_to(request.member).select_related("destination")
    found = get_object_or_404(deliveries, pk=delivery_id)
    try:
        actions.resend(delivery=found, by=request.user)
    except (actions.IsOff, actions.NotOver) as refusal:
        messages.error(request, str(refusal))
    return redirect("webhooks:destination", found.destination_id)


def _find(request: HtmxRequest, webhook_id: UUID) -> Destination:
    rows = Destination.objects.visible_to(request.member).select_related("workspace", "created_by")
    return get_object_or_404(rows, pk=webhook_id)


def _page(request: HtmxRequest, form: DestinationForm) -> dict[str, Any]:
    rows = Destination.objects.visible_to(request.member).select_related("created_by")
    return {"page": page_of(rows, cursor=request.GET.get("cursor", "")), "form": form}


def _shown(
    request: HtmxRequest, found: Destination, *, secret: str = "", form: ChangeForm | None = None, status: int = 200
) -> HttpResponse:
    page = page_of(found.deliveries.all(), cursor=request.GET.get("cursor", ""), size=30)
    context = {
        "destination": found,
        "page": page,
        "is_moving": any(row.state == Delivery.State.WAITING and row.attempts == 0 for row in page),
        "secret": secret,
        "form": form or ChangeForm({"name": found.name, "events": found.events}),
        "told_of": [EventType(event).label for event in found.events if event in EventType.values],
    }
    return render(request, "webhooks/destination.html", context, status=status)
