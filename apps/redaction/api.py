"""REST for redaction rules."""

from __future__ import annotations

from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Role
from apps.common.api import ListView, MemberView, RequestSerializer
from apps.common.names import refuse_invisible
from apps.redaction import rules
from apps.redaction.detectors import DETECTORS
from apps.redaction.models import RedactionRule
from apps.redaction.patterns import MAX_PATTERN_LENGTH


class RedactionRuleSerializer(serializers.ModelSerializer[RedactionRule]):
    """A rule: what is replaced by `[redacted: name]` before anything is stored."""

    class Meta:
        model = RedactionRule
        fields = ["id", "name", "detector", "pattern", "created_at"]
        read_only_fields = fields


class NewRedactionRuleSerializer(RequestSerializer):
    """A detector, or a pattern with a name."""

    detector = serializers.ChoiceField(choices=list(DETECTORS), required=False, default="")
    name = serializers.CharField(validators=[refuse_invisible], max_length=40, required=False, default="")
    pattern = serializers.CharField(
        max_length=MAX_PATTERN_LENGTH,
        required=False,
        default="",
        trim_whitespace=False,
        help_text="A regular expression in RE2 syntax.",
    )


class RedactionSampleSerializer(RequestSerializer):
    """A text, and optionally a pattern to try instead of the rules."""

    sample = serializers.CharField(max_length=rules.MAX_SAMPLE_LENGTH, trim_whitespace=False)
    pattern = serializers.CharField(max_length=MAX_PATTERN_LENGTH, required=False, default="", trim_whitespace=False)


class RedactedSampleSerializer(serializers.Serializer[None]):
    """The redacted sample."""

    text = serializers.CharField()
    found = serializers.DictField(
        child=serializers.IntegerField(), help_text="Replaced spans, by the name of the rule."
    )


class RulesView(ListView):
    """The workspace's redaction rules."""

    needs = Role.OWNER

    @extend_schema(
        operation_id="redaction_rules_list",
        summary="List redaction rules, newest first",
        responses=RedactionRuleSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(RedactionRule.objects.visible_to(self.member), RedactionRuleSerializer)

    @extend_schema(
        operation_id="redaction_rules_create",
        summary="Replace what a detector finds, or a pattern matches, before anything is stored",
        request=NewRedactionRuleSerializer,
        responses={201: RedactionRuleSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewRedactionRuleSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            rule = rules.add_rule(workspace=self.member.workspace, by=self.member.user, **form.validated_data)
        except rules.RuleRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        rule.refresh_from_db()
        return Response(RedactionRuleSerializer(rule).data, status=status.HTTP_201_CREATED)


class TestView(MemberView):
    """Try rules on a sample."""

    needs = Role.OWNER
    keeps_answers = False  # samples aren't stored

    @extend_schema(
        operation_id="redaction_rules_test",
        summary="Apply the rules, or only a pattern, to a sample, which isn't stored",
        request=RedactionSampleSerializer,
        responses={200: RedactedSampleSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = RedactionSampleSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            text, run = rules.preview(workspace=self.member.workspace, **form.validated_data)
        except rules.RuleRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        return Response({"text": text, "found": run.found})


class RemoveView(MemberView):
    """Remove a rule."""

    permission_classes = [IsMember, RecentSignIn]
    needs = Role.OWNER

    @extend_schema(
        operation_id="redaction_rules_remove",
        summary="Remove a redaction rule; what it replaced stays replaced",
        request=None,
        responses={200: RedactionRuleSerializer},
    )
    def post(self, request: Request, redaction_rule_id: UUID) -> Response:
        rows = RedactionRule.objects.visible_to(self.member).select_related("workspace")
        rule = get_object_or_404(rows, pk=redaction_rule_id)
        rules.remove_rule(rule=rule, by=self.member.user)
        return Response(RedactionRuleSerializer(rule).data)
