"""REST API of traffic splits: create, read with figures, change, turn on or off, remove."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.common.names import refuse_invisible
from apps.gateway.splits import changes
from apps.gateway.splits.changes import ArmPlan
from apps.gateway.splits.figures import SplitFigures, figures_of
from apps.gateway.splits.models import LARGEST_CANARY, LARGEST_WEIGHT, TrafficSplit
from apps.policies import promotions
from apps.policies.models import Policy

RELATED = ("arms__policy",)
DRAWN_FOR = "What an arm is drawn for; the same unit always has the same arm. unit: metadata.unit of a session or a chat, or else its user."


class ArmSerializer(RequestSerializer):
    """An arm of a split, with its relative weight."""

    policy = serializers.UUIDField()
    weight = serializers.IntegerField(min_value=1, max_value=LARGEST_WEIGHT, default=1)


class CanarySerializer(RequestSerializer):
    """An arm with a small share of all sessions."""

    policy = serializers.UUIDField()
    percent = serializers.IntegerField(min_value=1, max_value=LARGEST_CANARY)


class ChangeSplitSerializer(RequestSerializer):
    """The arms for sessions that begin from now on."""

    arms = ArmSerializer(many=True, help_text="The policies that share the sessions, by weight.")
    canary = CanarySerializer(
        required=False,
        allow_null=True,
        default=None,
        help_text="A policy with a small share, in percent of all sessions.",
    )
    unit = serializers.ChoiceField(
        choices=TrafficSplit.Unit.choices, required=False, help_text=f"{DRAWN_FOR} Default: as it is."
    )


class NewSplitSerializer(ChangeSplitSerializer):
    """A split to create."""

    unit = serializers.ChoiceField(
        choices=TrafficSplit.Unit.choices, default=TrafficSplit.Unit.SESSION, help_text=DRAWN_FOR
    )
    name = serializers.CharField(
        validators=[refuse_invisible],
        max_length=80,
        help_text="The model name that agents request: letters, digits, dots, dashes.",
    )
    environment = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=100,
        help_text="Its champion answers if an arm can't be reached, and while the split is off.",
    )
    champion = serializers.UUIDField(
        required=False, allow_null=True, default=None, help_text="Becomes the environment's champion if it has none."
    )


class SplitSwitchSerializer(RequestSerializer):
    """Whether the split is on."""

    is_on = serializers.BooleanField(help_text="If off, the champion answers every new session.")


class SplitSerializer(serializers.ModelSerializer[TrafficSplit]):
    """A gateway model name that is routed to one policy, or to several by weight."""

    url = serializers.SerializerMethodField()
    arms = serializers.SerializerMethodField()

    class Meta:
        model = TrafficSplit
        fields = [
            "id",
            "url",
            "name",
            "environment",
            "unit",
            "is_on",
            "arms",
            "arms_changed_at",
            "experiment",
            "created_at",
        ]
        read_only_fields = fields

    def get_url(self, split: TrafficSplit) -> str:
        """URL for polling."""
        return reverse("traffic_split", kwargs={"split_id": split.pk}, request=self.context["request"])

    def get_arms(self, split: TrafficSplit) -> list[dict[str, Any]]:
        """policy, policy_name, weight (a canary's in percent of all sessions), is_canary."""
        return [
            {
                "policy": str(arm.policy_id),
                "policy_name": arm.policy.name,
                "weight": arm.weight,
                "is_canary": arm.is_canary,
            }
            for arm in sorted(split.arms.all(), key=lambda arm: arm.pk)
        ]


class SplitFiguresSerializer(SplitSerializer):
    """A split with the figures of its newest sessions."""

    champion = serializers.SerializerMethodField()
    figures = serializers.SerializerMethodField()

    class Meta(SplitSerializer.Meta):
        fields = [*SplitSerializer.Meta.fields, "champion", "figures"]
        read_only_fields = fields

    def get_champion(self, split: TrafficSplit) -> UUID | None:
        """The policy that answers if an arm can't be reached, and while the split is off."""
        champion = promotions.champion(workspace=split.workspace, environment=split.environment)
        return champion.pk if champion else None

    def get_figures(self, split: TrafficSplit) -> dict[str, Any]:
        """sessions, off_sessions (without a drawn arm), is_cut, mismatch (p-value of the observed shares), is_alarming (p < 0.001), and the results per arm.

        By policy: share, sessions that it was drawn for, failed_over, abandoned, success {sessions, units, value, low, high}; and for the calls that
        it answered: calls, errors, p50 and p95 in seconds, and cost {dollars, estimated_calls, unknown_calls}.
        """
        return as_json(figures_of(split))


def as_json(figures: SplitFigures) -> dict[str, Any]:
    """The figures as JSON, with policies as ids."""
    arms = [
        {
            **{
                name: value
                for name, value in arm._asdict().items()
                if name not in ("policy", "arm", "outcomes", "cost")
            },
            "policy": str(arm.policy.pk),
            "success": arm.outcomes._asdict() if arm.outcomes else None,
            "cost": arm.cost.to_json(),
        }
        for arm in figures.arms
    ]
    return {**figures._asdict(), "arms": arms, "is_alarming": figures.is_alarming}


class _Splits(MemberView):
    needs = Role.RESEARCHER

    def find(self, split_id: UUID) -> TrafficSplit:
        splits = TrafficSplit.objects.visible_to(self.member).select_related("workspace").prefetch_related(*RELATED)
        return get_object_or_404(splits, pk=split_id)

    def answer(self, split_id: UUID, **more: Any) -> Response:
        context = {"request": self.request}
        return Response(SplitFiguresSerializer(self.find(split_id), context=context).data, **more)

    def plans(self, data: dict[str, Any]) -> list[ArmPlan]:
        """The arms in a request. Raises ValidationError."""
        canary = data.pop("canary")
        requested = [(arm["policy"], arm["weight"], False) for arm in data.pop("arms")]
        if canary:
            requested.append((canary["policy"], canary["percent"], True))
        policies = self.acting().in_bulk({pk for pk, *_ in requested})
        if unknown := next((pk for pk, *_ in requested if pk not in policies), None):
            raise self.no_policy(unknown, "arms")
        return [ArmPlan(policies[pk], weight, is_canary) for pk, weight, is_canary in requested]

    def policy(self, pk: UUID, field: str) -> Policy:
        policy = self.acting().filter(pk=pk).first()
        if policy is None:
            raise self.no_policy(pk, field)
        return policy

    def acting(self) -> QuerySet[Policy]:
        return Policy.objects.visible_to(self.member).acting().select_related("endpoint")

    def no_policy(self, pk: UUID, field: str) -> ValidationError:
        return ValidationError({field: [f"There is no policy {pk} that can act. GET /api/v1/policies lists them."]})


class SplitsView(_Splits, ListView):
    """The workspace's traffic splits."""

    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="traffic_splits_create",
        summary="Create a traffic split: a model name that is routed to several policies",
        request=NewSplitSerializer,
        responses={201: SplitFiguresSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewSplitSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        champion = data.pop("champion")
        try:
            split = changes.create_split(
                workspace=self.member.workspace,
                arms=self.plans(data),
                champion=self.policy(champion, "champion") if champion else None,
                by=self.member.user,
                **data,
            )
        except changes.SplitRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        answer = self.answer(split.pk, status=status.HTTP_201_CREATED)
        answer["Location"] = answer.data["url"]
        return answer

    @extend_schema(
        operation_id="traffic_splits_list",
        summary="List traffic splits, newest first",
        responses=SplitSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        splits = TrafficSplit.objects.visible_to(self.member).prefetch_related(*RELATED)
        return self.page_of(splits, SplitSerializer)


class SplitView(_Splits):
    """One traffic split."""

    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="traffic_splits_read",
        summary="Read a traffic split with its figures",
        responses=SplitFiguresSerializer,
    )
    def get(self, request: Request, split_id: UUID) -> Response:
        return self.answer(split_id)

    @extend_schema(
        operation_id="traffic_splits_change",
        summary="Change a traffic split's arms; open sessions keep theirs",
        request=ChangeSplitSerializer,
        responses={200: SplitFiguresSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request, split_id: UUID) -> Response:
        split = self.find(split_id)
        form = ChangeSplitSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        try:
            changes.change_split(split=split, arms=self.plans(data), by=self.member.user, **data)
        except changes.SplitRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        return self.answer(split_id)


class SwitchView(_Splits):
    """Turns a traffic split on or off."""

    @extend_schema(
        operation_id="traffic_splits_switch",
        summary="Turn a traffic split off, so that the champion answers, or on again",
        request=SplitSwitchSerializer,
        responses=SplitFiguresSerializer,
    )
    def post(self, request: Request, split_id: UUID) -> Response:
        split = self.find(split_id)
        form = SplitSwitchSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        changes.switch(split=split, by=self.member.user, **form.validated_data)
        return self.answer(split_id)


class RemoveView(_Splits):
    """Removes a traffic split."""

    @extend_schema(
        operation_id="traffic_splits_remove",
        summary="Remove a traffic split that no session has used",
        request=None,
        responses={200: SplitSerializer, 409: OpenApiResponse(description="Sessions use it.")},
    )
    def post(self, request: Request, split_id: UUID) -> Response:
        split = self.find(split_id)
        as_it_was = SplitSerializer(split, context={"request": request}).data
        try:
            changes.remove_split(split=split, by=self.member.user)
        except changes.InUse as refusal:
            raise Conflict(str(refusal)) from None
        return Response(as_it_was)
