"""Download of a policy's model card, to be put beside its weights."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.http import HtmxRequest
from apps.policies.models import Policy
from apps.training.model_card import FILE, model_card


@require_safe
@at_least(Role.RESEARCHER)
def download_card(request: HtmxRequest, policy_id: UUID) -> HttpResponse:
    """The card as README.md."""
    policy = get_object_or_404(Policy.objects.visible_to(request.member), pk=policy_id)
    headers = {"Content-Disposition": f'attachment; filename="{FILE}"'}
    return HttpResponse(model_card(policy), content_type="text/markdown; charset=utf-8", headers=headers)
