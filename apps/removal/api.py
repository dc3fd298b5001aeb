"""REST for deletions and retention rules."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer, cleaned
from apps.removal import deletion, removal_job, retention
from apps.removal.forms import MAX_DAYS, RuleForm
from apps.removal.models import Removal, RetentionRule


class DeletionTargetSerializer(RequestSerializer):
    """The thing to delete."""

    thing = serializers.ChoiceField([(name, Removal.Thing(name).label) for name in deletion.MODELS])
    target = serializers.UUIDField(help_text="The id of what to remove.")


class BlockerSerializer(serializers.Serializer[Any]):
    """A reason why it can't be deleted, for now or ever."""

    words = serializers.CharField()
    page = serializers.CharField(source="url", help_text="The path of its page.")


class DeletionPreviewSerializer(serializers.Serializer[Any]):
    """What a deletion would remove, and what prevents it."""

    title = serializers.CharField()
    goes = serializers.DictField(child=serializers.IntegerField(), help_text="Counts of what would be removed.")
    blockers = BlockerSerializer(many=True, help_text="What prevents the deletion; the first ten.")
    has_more = serializers.BooleanField(help_text="Whether there are more than these ten.")


class DeletionSerializer(serializers.ModelSerializer[Removal]):
    """A deletion: its progress, and what was removed."""

    thing = serializers.CharField(read_only=True, help_text="`expired`: trajectories expired by a retention rule.")
    removed = serializers.DictField(child=serializers.IntegerField(), read_only=True)
    error = serializers.CharField(read_only=True, help_text="Why nothing was deleted.")

    class Meta:
        model = Removal
        fields = ["id", "thing", "target", "title", "state", "removed", "error", "created_at", "finished_at"]
        read_only_fields = fields


class _TargetView(MemberView):
    needs = Role.RESEARCHER

    def target(self, request: Request) -> tuple[str, Any]:
        """The kind of thing, and the thing itself. Raises ValidationError, Http404."""
        serializer = DeletionTargetSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        thing, pk = serializer.validated_data["thing"], serializer.validated_data["target"]
        target = deletion.target_of(thing, pk, self.member.workspace)
        if target is None:
            raise Http404
        return thing, target


class RemovalsView(_TargetView, ListView):
    """GET, POST /api/v1/deletions"""

    @extend_schema(
        operation_id="deletions_list", summary="List deletions, newest first", responses=DeletionSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Removal.objects.visible_to(self.member), DeletionSerializer)

    @extend_schema(
        operation_id="deletions_create",
        summary="Delete a trajectory, a task, a queue, a dataset, or a failed version, with everything that belongs to it",
        description="A worker carries it out, completely or not at all. Nothing is deleted that something else depends on, above all frozen versions.",
        request=DeletionTargetSerializer,
        responses={
            202: DeletionSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="Something depends on it; the first ten are listed."),
        },
    )
    def post(self, request: Request) -> Response:
        thing, target = self.target(request)
        try:
            removal = removal_job.ask_for_removal(thing=thing, target=target, by=self.member)
        except deletion.StillNeeded as refusal:
            raise Conflict(str(refusal)) from None
        removal.refresh_from_db()
        return Response(DeletionSerializer(removal).data, status=status.HTTP_202_ACCEPTED)


class PreviewView(_TargetView):
    """POST /api/v1/deletions/preview"""

    @extend_schema(
        operation_id="deletions_preview",
        summary="Preview what a deletion would remove, or what prevents it",
        request=DeletionTargetSerializer,
        responses={200: DeletionPreviewSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        _, target = self.target(request)
        return Response(DeletionPreviewSerializer(deletion.outlook(target)).data)


class RemovalView(MemberView):
    """GET /api/v1/deletions/<id>"""

    needs = Role.RESEARCHER

    @extend_schema(operation_id="deletions_read", summary="Read the state of a deletion", responses=DeletionSerializer)
    def get(self, request: Request, removal_id: UUID) -> Response:
        removal = get_object_or_404(Removal.objects.visible_to(self.member), pk=removal_id)
        return Response(DeletionSerializer(removal).data)


class RetentionRuleSerializer(serializers.ModelSerializer[RetentionRule]):
    """How long unused trajectories of one source are kept."""

    class Meta:
        model = RetentionRule
        fields = ["id", "source", "days", "is_on", "ran_at", "created_at"]
        read_only_fields = fields


class PreviewedRuleSerializer(RetentionRuleSerializer):
    """The rule with how much it would delete now."""

    would_go = serializers.SerializerMethodField()

    class Meta(RetentionRuleSerializer.Meta):
        fields = [*RetentionRuleSerializer.Meta.fields, "would_go"]
        read_only_fields = fields

    def get_would_go(self, rule: RetentionRule) -> int:
        """Number of trajectories, and of sessions that became none; 100,001 if there are more than 100,000."""
        return retention.would_go(rule)


class NewRuleSerializer(RequestSerializer):
    """A source that has trajectories, and how long they're kept."""

    source = serializers.CharField(max_length=50)  # type: ignore[assignment]  # every field has an attribute of this name
    days = serializers.IntegerField(min_value=1, max_value=MAX_DAYS)


class ChangeRuleSerializer(RequestSerializer):
    """The changes; omitted fields stay the same."""

    days = serializers.IntegerField(min_value=1, max_value=MAX_DAYS, required=False)
    is_on = serializers.BooleanField(
        required=False, help_text="Whether the rule is on. Read `would_go` before you turn it on."
    )


class RetentionRulesView(ListView):
    """GET, POST /api/v1/retention-rules"""

    needs = Role.OWNER

    @extend_schema(
        operation_id="retention_rules_list",
        summary="List retention rules, newest first",
        responses=RetentionRuleSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(RetentionRule.objects.visible_to(self.member), RetentionRuleSerializer)

    @extend_schema(
        operation_id="retention_rules_create",
        summary="Create a retention rule, turned off",
        request=NewRuleSerializer,
        responses={201: PreviewedRuleSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        serializer = NewRuleSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fields = cleaned(RuleForm(serializer.validated_data, workspace=self.member.workspace))
        try:
            rule = retention.create_rule(by=self.member, **fields)
        except retention.RuleRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        rule.refresh_from_db()
        return Response(PreviewedRuleSerializer(rule).data, status=status.HTTP_201_CREATED)


class _OneRuleView(MemberView):
    needs = Role.OWNER

    def find(self, rule_id: UUID) -> RetentionRule:
        return get_object_or_404(RetentionRule.objects.visible_to(self.member), pk=rule_id)


class RetentionRuleView(_OneRuleView):
    """GET /api/v1/retention-rules/<id>"""

    @extend_schema(
        operation_id="retention_rules_read",
        summary="Read a retention rule, with the number of trajectories it would delete now",
        responses=PreviewedRuleSerializer,
    )
    def get(self, request: Request, rule_id: UUID) -> Response:
        return Response(PreviewedRuleSerializer(self.find(rule_id)).data)


class ChangeRuleView(_OneRuleView):
    """POST /api/v1/retention-rules/<id>/change"""

    @extend_schema(
        operation_id="retention_rules_change",
        summary="Change a retention rule, turn it on or off",
        request=ChangeRuleSerializer,
        responses={200: PreviewedRuleSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request, rule_id: UUID) -> Response:
        rule, serializer = self.find(rule_id), ChangeRuleSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        retention.change_rule(rule=rule, by=self.member, **serializer.validated_data)
        rule.refresh_from_db()
        return Response(PreviewedRuleSerializer(rule).data)


class RemoveRuleView(_OneRuleView):
    """POST /api/v1/retention-rules/<id>/remove"""

    @extend_schema(
        operation_id="retention_rules_remove",
        summary="Remove a retention rule",
        request=None,
        responses={200: RetentionRuleSerializer},
    )
    def post(self, request: Request, rule_id: UUID) -> Response:
        rule = self.find(rule_id)
        retention.remove_rule(rule=rule, by=self.member)
        return Response(RetentionRuleSerializer(rule).data)
