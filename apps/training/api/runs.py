"""REST for training runs: launch, poll, cancel, resume."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.common.names import refuse_invisible
from apps.datasets.models import Version
from apps.jobs import lifecycle
from apps.policies.models import Policy
from apps.policies.registration import NoSuchPlace, hub_base
from apps.training.launch import launch_run, refuse_if_known
from apps.training.models import Run, RunEvent, RunReward
from apps.training.plan import Plan, plan_run
from apps.training.presets import METHODS, PRESETS
from apps.training.queries import runs_for_api
from apps.training.refusals import LaunchRefused, SettingsRefused
from apps.training.remedies import RemedyRefused, resume_with_remedy
from apps.training.series import metric_points
from contract.configs import TRAINING_CONFIGS
from contract.configs.schema import launch_schema

CHECK_PATIENCE_SECONDS = 5.0


class RewardSerializer(serializers.ModelSerializer[RunReward]):
    """A policy of the workspace that serves as a term of a run's reward."""

    class Meta:
        model = RunReward
        fields = ["policy", "term", "component", "weight"]
        read_only_fields = fields


class AlarmSerializer(serializers.ModelSerializer[RunEvent]):
    """A known failure mode detected in a run's curves, and the one setting to change on resume."""

    setting = serializers.CharField(
        source="details.setting", default="", help_text="The path of the setting in the config."
    )
    value = serializers.JSONField(source="details.value", default=None, help_text="The value to change the setting to.")

    class Meta:
        model = RunEvent
        fields = ["id", "at", "text", "setting", "value"]
        read_only_fields = fields


class ChangeSerializer(serializers.ModelSerializer[RunEvent]):
    """A setting that was changed when the run was resumed: `details` has setting, from, to, and the first step it applies to."""

    class Meta:
        model = RunEvent
        fields = ["at", "text", "details"]
        read_only_fields = fields


class RunSerializer(serializers.ModelSerializer[Run]):
    """A run: its config, its progress, and its result."""

    url = serializers.SerializerMethodField()
    rewards = RewardSerializer(many=True, read_only=True, help_text="The learned terms of its reward.")
    alarms = AlarmSerializer(many=True, read_only=True, help_text="The alarms raised so far, newest first.")
    changes = ChangeSerializer(many=True, read_only=True, help_text="Settings changed on resume, newest first.")

    class Meta:
        model = Run
        fields = [
            *("id", "url", "name", "algorithm", "version", "base", "preset", "config", "rewards"),
            *("state", "step", "total_steps", "alarms", "changes"),
            *(
                "checkpoint_step",
                "attempt",
                "worker",
                "device",
                "parameters",
                "memory_mb",
                "losses",
                "loss",
                "failure",
                "report",
                "result",
            ),
            *("created_at", "started_at", "finished_at"),
        ]
        read_only_fields = fields

    def get_url(self, run: Run) -> str:
        """The address to poll."""
        return reverse("run", kwargs={"run_id": run.pk}, request=self.context["request"])


@extend_schema_field(
    {
        "type": "object",
        "description": "Settings to change; the format depends on the algorithm, and omitted settings keep the preset's values.",
        "oneOf": [
            {**launch_schema(cls), "title": Run.Algorithm(algorithm).label}
            for algorithm, cls in TRAINING_CONFIGS.items()
        ],
        "example": {"optimizer": {"learning_rate": 1e-5, "max_steps": 100}},
    }
)
class ConfigField(serializers.DictField):
    """A partial config. The allowed fields depend on the algorithm and are validated with the plan."""


class NewRunSerializer(RequestSerializer):
    """A run to launch. `config` overrides settings of the preset, in the format of the algorithm's run.json."""

    algorithm = serializers.ChoiceField(choices=Run.Algorithm.choices)
    version = serializers.UUIDField(
        required=False, allow_null=True, help_text="A frozen dataset version; none for grpo, rloo and star."
    )
    base = serializers.UUIDField(
        required=False, allow_null=True, help_text="A language model; none makes a new small one (sft only)."
    )
    hub_base = serializers.CharField(
        max_length=200,
        required=False,
        default="",
        help_text="Instead of `base`: the id of a model on the hub, such as Qwen/Qwen3-0.6B. It's registered as a policy.",
    )
    preset = serializers.ChoiceField(choices=list(PRESETS), default="standard")
    method = serializers.ChoiceField(choices=list(METHODS), default="full")
    name = serializers.CharField(validators=[refuse_invisible], max_length=180, required=False, default="")
    config = ConfigField(required=False, default=dict)


class PointSerializer(serializers.Serializer[Any]):
    """The metrics at a step, or their means where steps were merged."""

    step = serializers.IntegerField()
    values = serializers.DictField(child=serializers.FloatField())


class RunsView(ListView):
    """The workspace's runs."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="runs_create",
        summary="Launch a training run",
        description="Checked before anything is queued; a refusal names the field to change.",
        request=NewRunSerializer,
        responses={201: RunSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        serializer = NewRunSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            plan = self._plan(serializer.validated_data)
            refuse_if_known(plan, seconds=CHECK_PATIENCE_SECONDS)
            launched = launch_run(plan=plan, by=self.member.user)
        except SettingsRefused as refusal:
            raise ValidationError({"config": _by_field(refusal)}) from None
        except LaunchRefused as refusal:
            raise ValidationError({refusal.field or "detail": [str(refusal)]}) from None
        run = runs_for_api(self.member).get(pk=launched.pk)
        answer = RunSerializer(run, context={"request": request}).data
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Location": answer["url"]})

    @extend_schema(
        operation_id="runs_list", summary="List training runs, newest first", responses=RunSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(runs_for_api(self.member), RunSerializer)

    def _plan(self, data: dict[str, Any]) -> Plan:
        version = None
        if data.get("version"):
            version = (
                Version.objects.visible_to(self.member).select_related("dataset").filter(pk=data["version"]).first()
            )
        if version is None and data.get("version"):
            raise ValidationError({"version": ["There is no such version in this workspace."]})
        base = None
        if data.get("base"):
            base = Policy.objects.visible_to(self.member).filter(pk=data["base"]).first()
            if base is None:
                raise ValidationError({"base": ["There is no such policy in this workspace."]})
        if data["hub_base"]:
            if base is not None:
                raise ValidationError({"hub_base": ["Got both `base` and `hub_base`; expected one of them."]})
            try:
                base = hub_base(workspace=self.member.workspace, hub_id=data["hub_base"])
            except NoSuchPlace as refusal:
                raise ValidationError({"hub_base": [str(refusal)]}) from None
        return plan_run(
            member=self.member,
            algorithm=data["algorithm"],
            version=version,
            base=base,
            preset=data["preset"],
            method=data["method"],
            changes=data["config"],
            name=data["name"],
        )


def _by_field(refusal: SettingsRefused) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    for problem in refusal.problems:
        problems.setdefault(problem.field or "detail", []).append(problem.message)
    return problems


class RunView(MemberView):
    """One run."""

    needs = Role.RESEARCHER

    @extend_schema(operation_id="runs_read", summary="The state of a training run", responses=RunSerializer)
    def get(self, request: Request, run_id: UUID) -> Response:
        run = get_object_or_404(runs_for_api(self.member), pk=run_id)
        headers = {"Retry-After": "2"} if run.is_active else {}
        return Response(RunSerializer(run, context={"request": request}).data, headers=headers)


class MetricsView(MemberView):
    """A run's metrics."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="runs_metrics",
        summary="What a training run measured, at most `most` points",
        parameters=[
            OpenApiParameter("after", OpenApiTypes.INT, description="Only steps above this one."),
            OpenApiParameter("most", OpenApiTypes.INT, description="1 to 5000; 1000 unless given."),
        ],
        responses=PointSerializer(many=True),
    )
    def get(self, request: Request, run_id: UUID) -> Response:
        run = get_object_or_404(Run.objects.visible_to(self.member).only("id"), pk=run_id)
        after = self._whole_number("after", default=-1, low=-1, high=2**31 - 1)
        max_points = self._whole_number("most", default=1000, low=1, high=5000)
        points = metric_points(run.pk, after=after, max_points=max_points)
        return Response([{"step": point.step, "values": point.numbers} for point in points])

    def _whole_number(self, name: str, *, default: int, low: int, high: int) -> int:
        text = self.request.query_params.get(name, str(default))
        try:
            value = int(text)
        except ValueError:
            raise ValidationError({name: [f"Got {text!r}, expected a whole number."]}) from None
        if not low <= value <= high:
            raise ValidationError({name: [f"Got {value}, expected {low} to {high}."]})
        return value


class CancelView(MemberView):
    """Cancel a run."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="runs_cancel",
        summary="Cancel a training run after it has saved a checkpoint",
        request=None,
        responses={200: RunSerializer, 409: OpenApiResponse(description="It has already ended.")},
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        run = get_object_or_404(runs_for_api(self.member), pk=run_id)
        try:
            lifecycle.cancel(run, by=self.member.user)
        except lifecycle.NotActive as refusal:
            raise Conflict(str(refusal)) from None
        return Response(RunSerializer(run, context={"request": request}).data)


class ResumeView(MemberView):
    """Resume a run."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="runs_resume",
        summary="Resume a cancelled or failed training run from its last checkpoint",
        request=None,
        responses={200: RunSerializer, 409: OpenApiResponse(description="It can't be resumed.")},
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        run = get_object_or_404(runs_for_api(self.member), pk=run_id)
        try:
            lifecycle.resume(run, by=self.member.user)
        except lifecycle.NotResumable as refusal:
            raise Conflict(str(refusal)) from None
        return Response(RunSerializer(run, context={"request": request}).data)


class ResumeWithView(MemberView):
    """Resume a run with the setting that an alarm recommends."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="runs_resume_with",
        summary="Resume a cancelled or failed run with the setting that an alarm names",
        description="The run resumes from its last checkpoint; `changes` records what was changed, and from which step on.",
        request=None,
        responses={
            200: RunSerializer,
            409: OpenApiResponse(description="It can't be resumed, or the alarm's setting is already in use."),
        },
    )
    def post(self, request: Request, run_id: UUID, alarm_id: int) -> Response:
        run = get_object_or_404(Run.objects.visible_to(self.member), pk=run_id)
        alarm = get_object_or_404(run.events.filter(kind="alarm"), pk=alarm_id)
        try:
            resume_with_remedy(run=run, alarm=alarm, by=self.member.user)
        except (RemedyRefused, lifecycle.NotResumable) as refusal:
            raise Conflict(str(refusal)) from None
        resumed = runs_for_api(self.member).get(pk=run_id)
        return Response(RunSerializer(resumed, context={"request": request}).data)
