"""GET /api/v1/policies"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.common.api import ListView, MemberView
from apps.policies.models import Policy
from apps.policies.queries import champions_of, policies_for_list


class PolicySerializer(serializers.ModelSerializer[Policy]):
    """A policy: what it is, what it was made from, how it does."""

    champion_of = serializers.SerializerMethodField()
    run = serializers.SerializerMethodField()
    held_out_played = serializers.IntegerField(default=0)
    held_out_succeeded = serializers.IntegerField(default=0)

    class Meta:
        model = Policy
        fields = [
            *("id", "name", "kind", "description", "base", "run", "location", "settings", "report"),
            *("champion_of", "held_out_played", "held_out_succeeded", "created_at"),
        ]
        read_only_fields = fields

    def get_champion_of(self, policy: Policy) -> list[str]:
        """The environments that it is the champion of."""
        champions: dict[Any, list[str]] = self.context["champions"]
        return champions.get(policy.pk, [])

    def get_run(self, policy: Policy) -> UUID | None:
        """The run that made it."""
        run = getattr(policy, "made_by", None)
        return run.pk if run else None


class PoliciesView(ListView):
    """The workspace's policies."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="policies_list", summary="List policies, newest first", responses=PolicySerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(policies_for_list(self.member), PolicySerializer, champions=champions_of(self.member))


class PolicyView(MemberView):
    """One policy."""

    needs = Role.RESEARCHER

    @extend_schema(operation_id="policies_read", summary="One policy", responses=PolicySerializer)
    def get(self, request: Request, policy_id: UUID) -> Response:
        policy = get_object_or_404(policies_for_list(self.member), pk=policy_id)
        context = {"request": request, "champions": champions_of(self.member)}
        return Response(PolicySerializer(policy, context=context).data)
