"""REST for policies, endpoints, and champions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer, cleaned
from apps.common.api_forms import request_of
from apps.policies import promotions
from apps.policies.archival import IsChampion, archive_policy, restore_policy
from apps.policies.forms import PolicyForm
from apps.policies.models import Endpoint, Policy, Promotion
from apps.policies.queries import champions_of, policies_for_list
from apps.policies.registration import PolicyRefused

NewPolicySerializer = request_of(
    PolicyForm, "NewPolicy", "A policy to register. Fields that don't apply to its kind are ignored."
)


class PolicySerializer(serializers.ModelSerializer[Policy]):
    """A policy: its kind, its parent and run, and its measured success."""

    champion_of = serializers.SerializerMethodField()
    run = serializers.SerializerMethodField()
    held_out_played = serializers.IntegerField(default=0)
    held_out_succeeded = serializers.IntegerField(default=0)

    class Meta:
        model = Policy
        fields = [
            *("id", "name", "kind", "description", "base", "run", "location", "settings", "report"),
            *("champion_of", "held_out_played", "held_out_succeeded", "created_at", "archived_at"),
        ]
        read_only_fields = fields

    def get_champion_of(self, policy: Policy) -> list[str]:
        """The environments in which it's the champion."""
        champions: dict[Any, list[str]] = self.context["champions"]
        return champions.get(policy.pk, [])

    def get_run(self, policy: Policy) -> UUID | None:
        """The training run that made it."""
        run = getattr(policy, "made_by", None)
        return run.pk if run else None


class ArchivedSerializer(serializers.Serializer[Any]):
    """The query of the list."""

    archived = serializers.BooleanField()


class PoliciesView(ListView):
    """The workspace's policies."""

    needs = Role.RESEARCHER
    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="policies_list",
        summary="List policies, newest first",
        parameters=[OpenApiParameter("archived", bool, description="Whether to list the archived ones instead.")],
        responses=PolicySerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        query = ArchivedSerializer(data={"archived": request.query_params.get("archived", "false")})
        query.is_valid(raise_exception=True)
        policies = policies_for_list(self.member).archived(is_archived=query.validated_data["archived"])
        return self.page_of(policies, PolicySerializer, champions=champions_of(self.member))

    @extend_schema(
        operation_id="policies_create",
        summary="Register a model, a script, or a served model",
        description="`kind` determines which fields are used; the others are ignored. A served model's server becomes an endpoint.",
        request=NewPolicySerializer,
        responses={201: PolicySerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        serializer = NewPolicySerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        form = PolicyForm({name: value for name, value in serializer.validated_data.items() if value is not None})
        cleaned(form)
        try:
            registered = form.register(workspace=self.member.workspace, by=self.member.user)
        except PolicyRefused as refusal:
            raise ValidationError({refusal.field or "detail": [str(refusal)]}) from None
        policy = policies_for_list(self.member).get(pk=registered.pk)
        context = {"request": request, "champions": {}}
        return Response(PolicySerializer(policy, context=context).data, status=status.HTTP_201_CREATED)


class PolicyView(MemberView):
    """One policy."""

    needs = Role.RESEARCHER

    @extend_schema(operation_id="policies_read", summary="One policy", responses=PolicySerializer)
    def get(self, request: Request, policy_id: UUID) -> Response:
        return _answer(self, policy_id)


class ArchivePolicyView(MemberView):
    """Archive a policy."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="policies_archive",
        summary="Archive a policy",
        description="It leaves lists and choices. Everything that depends on it stays, and its sessions and rollouts in progress continue.",
        request=None,
        responses={200: PolicySerializer, 409: OpenApiResponse(description="It's the champion of an environment.")},
    )
    def post(self, request: Request, policy_id: UUID) -> Response:
        policy = get_object_or_404(Policy.objects.visible_to(self.member), pk=policy_id)
        try:
            archive_policy(policy=policy, by=self.member.user)
        except IsChampion as refusal:
            raise Conflict(str(refusal)) from None
        return _answer(self, policy_id)


class RestorePolicyView(MemberView):
    """Restore an archived policy."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="policies_restore", summary="Restore an archived policy", request=None, responses=PolicySerializer
    )
    def post(self, request: Request, policy_id: UUID) -> Response:
        policy = get_object_or_404(Policy.objects.visible_to(self.member), pk=policy_id)
        restore_policy(policy=policy, by=self.member.user)
        return _answer(self, policy_id)


def _answer(view: MemberView, policy_id: UUID) -> Response:
    policy = get_object_or_404(policies_for_list(view.member), pk=policy_id)
    context = {"request": view.request, "champions": champions_of(view.member)}
    return Response(PolicySerializer(policy, context=context).data)


class EndpointSerializer(serializers.ModelSerializer[Endpoint]):
    """A model server, or several replicas that serve the same models. Its key is known only to the workers and never returned."""

    class Meta:
        model = Endpoint
        fields = ["id", "name", "base_url", "replicas", "key_variable", "created_at"]
        read_only_fields = fields


class EndpointsView(ListView):
    """The workspace's endpoints."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="endpoints_list", summary="List endpoints, newest first", responses=EndpointSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Endpoint.objects.visible_to(self.member), EndpointSerializer)


class ChampionSerializer(serializers.ModelSerializer[Promotion]):
    """The champion of an environment, since when, and why."""

    class Meta:
        model = Promotion
        fields = ["id", "environment", "policy", "previous", "reason", "is_rollback", "created_at"]
        read_only_fields = fields


class RollBackChampionSerializer(RequestSerializer):
    """The environment in which to restore the previous champion, and why."""

    environment = serializers.CharField(max_length=100)
    reason = serializers.CharField(max_length=2000)
    champion = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The policy to roll back: if another is the champion by now, nothing changes. If omitted, whichever it is.",
    )


class ChampionsView(ListView):
    """The champions of the workspace's environments."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="champions_list",
        summary="List the champion of each environment, latest first",
        responses=ChampionSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        visible = Promotion.objects.visible_to(self.member)
        return self.page_of(visible.filter(pk__in=visible.current().values("pk")), ChampionSerializer)


class RollBackChampionView(MemberView):
    """Restore the previous champion."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="champions_roll_back",
        summary="Restore the previous champion",
        request=RollBackChampionSerializer,
        responses={
            201: ChampionSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="There is no previous champion, or `champion` isn't the current one."),
        },
    )
    def post(self, request: Request) -> Response:
        serializer = RollBackChampionSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = serializer.validated_data
        try:
            promotion = promotions.roll_back(
                workspace=self.member.workspace,
                environment=data["environment"],
                by=self.member.user,
                reason=data["reason"],
                seen=str(data["champion"] or ""),
            )
        except (promotions.NothingToRollBackTo, promotions.ChampionChanged) as refusal:
            raise Conflict(str(refusal)) from None
        promotion.refresh_from_db()
        return Response(ChampionSerializer(promotion).data, status=status.HTTP_201_CREATED)
