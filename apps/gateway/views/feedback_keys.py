"""Settings page of feedback keys, with which users' browsers send feedback on sessions."""

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
from apps.gateway import feedback
from apps.gateway.forms import FeedbackKeyForm
from apps.gateway.models import FeedbackKey


@require_safe
@at_least(Role.RESEARCHER)
def feedback_keys(request: HtmxRequest) -> HttpResponse:
    return render(request, "gateway/feedback_keys.html", _keys_page(request, FeedbackKeyForm()))


@require_POST
@never_cache
@at_least(Role.RESEARCHER)
@needs_recent_sign_in("make a feedback key")
def new_feedback_key(request: HtmxRequest) -> HttpResponse:
    """Responds with the page itself instead of a redirect: the key is shown only once and not stored."""
    form, created = FeedbackKeyForm(request.POST), None
    if form.is_valid():
        try:
            created = feedback.create_key(member=request.member, name=form.cleaned_data["name"])
        except feedback.KeysEnough as refusal:
            form.add_error(refusal.field, str(refusal))
    if created is None:
        return render(request, "gateway/feedback_keys.html", _keys_page(request, form), status=422)
    return render(request, "gateway/feedback_keys.html", {**_keys_page(request, FeedbackKeyForm()), "made": created})


@require_POST
def revoke_feedback_key(request: HtmxRequest, feedback_key_id: UUID) -> HttpResponse:
    rows = FeedbackKey.objects.visible_to(request.member).select_related("workspace")
    key = get_object_or_404(rows, pk=feedback_key_id)
    feedback.revoke_key(key=key, by=request.user)
    messages.success(request, f"“{key.name}” no longer works.")
    return redirect("gateway:feedback_keys")


def _keys_page(request: HtmxRequest, form: FeedbackKeyForm) -> dict[str, Any]:
    keys = FeedbackKey.objects.visible_to(request.member).select_related("created_by")
    return {"page": page_of(keys, cursor=request.GET.get("cursor", "")), "form": form}
