"""The page of one judgment: which versions contain it, and what was trained on them."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.http import HtmxRequest
from apps.training.lineage import judgment_for, use_of


@require_safe
@at_least(Role.RESEARCHER)
def lineage(request: HtmxRequest, judgment_id: UUID) -> HttpResponse:
    judgment = judgment_for(request.member, judgment_id)
    if judgment is None:
        raise Http404
    context = {"judgment": judgment, "use": use_of(judgment=judgment.pk)}
    return render(request, "training/lineage.html", context)
