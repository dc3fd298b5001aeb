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
from apps.webhooks.forms import ChangeForm, DestinationForm, TurnForm
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
            created = actions.create_destination(
                workspace=request.member.workspace, by=request.user, **form.cleaned_data
            )
            return _render_destination(request, created.destination, secret=created.secret)
        except actions.DestinationRefused as refusal:
            form.add_error(refusal.field, str(refusal))
    return render(request, "webhooks/destinations.html", _page(request, form), status=422)


@require_safe
def destination(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    return _render_destination(request, _find(request, webhook_id))


@require_POST
def change(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    destination, form = _find(request, webhook_id), ChangeForm(request.POST)
    if not form.is_valid():
        return _render_destination(request, destination, form=form, status=422)
    actions.change_destination(destination=destination, by=request.user, **form.cleaned_data)
    messages.success(request, "Saved.")
    return redirect("webhooks:destination", destination.pk)


@require_POST
@needs_recent_sign_in("turn a webhook on or off")
def turn(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    """Turn it on or off."""
    destination = _find(request, webhook_id)
    form = TurnForm(request.POST)
    form.is_valid()
    actions.change_destination(destination=destination, by=request.user, is_on=form.cleaned_data["is_on"])
    return redirect("webhooks:destination", destination.pk)


@require_POST
@never_cache
@needs_recent_sign_in("rotate a signing secret")
def rotate(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    destination = _find(request, webhook_id)
    try:
        secret = actions.rotate_secret(destination=destination, by=request.user)
    except actions.DestinationRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("webhooks:destination", destination.pk)
    destination.refresh_from_db()
    return _render_destination(request, destination, secret=secret)


@require_POST
def test(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    destination = _find(request, webhook_id)
    try:
        actions.send_test(destination=destination, by=request.user)
    except actions.IsOff as refusal:
        messages.error(request, str(refusal))
    return redirect("webhooks:destination", destination.pk)


@require_POST
def remove(request: HtmxRequest, webhook_id: UUID) -> HttpResponse:
    destination = _find(request, webhook_id)
    actions.remove_destination(destination=destination, by=request.user)
    messages.success(request, f"“{destination.name}” is removed.")
    return redirect("webhooks:list")


@require_POST
def resend(request: HtmxRequest, delivery_id: UUID) -> HttpResponse:
    deliveries = Delivery.objects.visible_to(request.member).select_related("destination")
    delivery = get_object_or_404(deliveries, pk=delivery_id)
    try:
        actions.resend(delivery=delivery, by=request.user)
    except (actions.IsOff, actions.NotFinished) as refusal:
        messages.error(request, str(refusal))
    return redirect("webhooks:destination", delivery.destination_id)


def _find(request: HtmxRequest, webhook_id: UUID) -> Destination:
    rows = Destination.objects.visible_to(request.member).select_related("workspace", "created_by")
    return get_object_or_404(rows, pk=webhook_id)


def _page(request: HtmxRequest, form: DestinationForm) -> dict[str, Any]:
    rows = Destination.objects.visible_to(request.member).select_related("created_by")
    return {"page": page_of(rows, cursor=request.GET.get("cursor", "")), "form": form}


def _render_destination(
    request: HtmxRequest,
    destination: Destination,
    *,
    secret: str = "",
    form: ChangeForm | None = None,
    status: int = 200,
) -> HttpResponse:
    page = page_of(destination.deliveries.all(), cursor=request.GET.get("cursor", ""), size=30)
    context = {
        "destination": destination,
        "page": page,
        "is_moving": any(row.state == Delivery.State.WAITING and row.attempts == 0 for row in page),
        "secret": secret,
        "form": form or ChangeForm({"name": destination.name, "events": destination.events}),
    }
    return render(request, "webhooks/destination.html", context, status=status)
