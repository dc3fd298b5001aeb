"""REST API of trajectories: list and filter them, and retrieve one in full."""

from __future__ import annotations

from uuid import UUID

from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.generics import ListAPIView
from rest_framework.request import Request

from apps.common.api import MemberView
from apps.common.downloads import download
from apps.trajectories.atif import atif_form
from apps.trajectories.export import rich_form
from apps.trajectories.filters import BadFilter, Filters
from apps.trajectories.models import Task, Trajectory, TrajectoryQuerySet


class TaskInListSerializer(serializers.ModelSerializer[Task]):
    """The task that a trajectory attempts."""

    class Meta:
        model = Task
        fields = ("id", "key", "environment", "category", "difficulty", "held_out")
        read_only_fields = fields


class TrajectorySerializer(serializers.ModelSerializer[Trajectory]):
    """A trajectory without its steps."""

    task = TaskInListSerializer()
    policy = serializers.CharField(source="policy.name", allow_null=True, default=None)

    class Meta:
        model = Trajectory
        fields = (
            *("id", "external_id", "task", "policy", "source", "reward", "success", "termination", "step_count"),
            *(
                "error_count",
                "token_count",
                "seconds",
                "tags",
                "parent",
                "branch_step",
                "import_batch",
                "rollout_batch",
            ),
            "created_at",
        )
        read_only_fields = fields


FILTERS = [
    OpenApiParameter(
        "q", str, description="Words of the task, each matched at its beginning; or an id, or an external id."
    ),
    OpenApiParameter("task", UUID, description="The task's id."),
    OpenApiParameter("environment", str),
    OpenApiParameter("policy", str, description="The policy's id, or `none` for an unknown policy."),
    OpenApiParameter("outcome", str, enum=["success", "failure", "none"]),
    OpenApiParameter("errors", str, enum=["yes", "no"], description="Whether any step failed."),
    OpenApiParameter("min_steps", int),
    OpenApiParameter("max_steps", int),
    OpenApiParameter("tool", str, description="The name of a tool that a step called."),
    OpenApiParameter("tag", str),
    OpenApiParameter("source", str, description="The import format, or `rollout`."),
    OpenApiParameter("batch", UUID, description="The import's id."),
    OpenApiParameter("rollouts", UUID, description="The id of a batch of rollouts."),
    OpenApiParameter("annotator", UUID, description="The id of an annotator who judged it."),
]


FORMS = {"retrace": rich_form, "atif": atif_form}
FORM = OpenApiParameter(
    "form",
    str,
    enum=[*FORMS],
    description="Retrace's own format, or ATIF (Agent Trajectory Interchange Format), version 1.6.",
)


class TrajectoriesView(MemberView, ListAPIView[Trajectory]):
    """The workspace's trajectories, newest first."""

    needs = Trajectory.visible_from
    serializer_class = TrajectorySerializer
    queryset = Trajectory.objects.none()

    @extend_schema(operation_id="trajectories_list", parameters=FILTERS)
    def get(self, request: Request) -> HttpResponseBase:  # type: ignore[override]  # no arguments in this address
        """List trajectories that match all filters."""
        return self.list(request)

    def get_queryset(self) -> TrajectoryQuerySet:
        visible: TrajectoryQuerySet = Trajectory.objects.visible_to(self.member)
        try:
            return Filters.read(self.request.GET).apply(visible, workspace_id=self.member.workspace_id).for_list()
        except BadFilter as error:
            raise ValidationError({error.name: [str(error)]}) from None


class TrajectoryView(MemberView):
    """One trajectory in full."""

    needs = Trajectory.visible_from

    @extend_schema(
        operation_id="trajectories_retrieve",
        parameters=[FORM],
        responses={
            (200, "application/json"): OpenApiResponse(
                OpenApiTypes.OBJECT,
                description="The rich form: task, policy, tools, steps, closing, outcome; or an object of ATIF.",
            )
        },
    )
    def get(self, request: Request, trajectory_id: UUID) -> HttpResponseBase:
        """The canonical rich form, streamed step by step: the same JSON that an import of Retrace's own format reads. Or ATIF, for other tools."""
        form = request.query_params.get("form", "retrace")
        if form not in FORMS:
            raise ValidationError({"form": [f"“{form[:60]}” isn't a form; known forms: {', '.join(FORMS)}."]})
        trajectories = Trajectory.objects.visible_to(self.member).select_related("task", "policy")
        trajectory = get_object_or_404(trajectories, pk=trajectory_id)
        response = download(FORMS[form](trajectory), filename=f"{trajectory.pk}.json", content_type="application/json")
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response
