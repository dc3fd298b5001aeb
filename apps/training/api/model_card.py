"""GET /api/v1/policies/{id}/card: what a policy is, what it learned from, and how well it does."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from apps.accounts.models import Role
from apps.common.api import MemberView
from apps.policies.models import Policy
from apps.training.model_card import model_card


class ModelCardView(MemberView):
    """A policy's model card, as a Markdown README."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="policies_card",
        summary="Read a policy's card",
        responses={(200, "text/markdown"): OpenApiTypes.STR},
    )
    def get(self, request: Request, policy_id: UUID) -> HttpResponse:
        policy = get_object_or_404(Policy.objects.visible_to(self.member), pk=policy_id)
        return HttpResponse(model_card(policy), content_type="text/markdown; charset=utf-8")
