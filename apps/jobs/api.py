"""Jobs over the API: a workspace's running and waiting background work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView
from apps.jobs import lifecycle
from apps.jobs.models import Job, Phase, kind_named, kind_of_job, kinds
from apps.jobs.queries import Row, find_job, jobs_of


class ProgressSerializer(serializers.Serializer[Any]):
    """A job's progress; a total of 0 means unknown."""

    done = serializers.IntegerField()
    total = serializers.IntegerField()
    unit = serializers.CharField()


class JobSerializer(serializers.Serializer[Row]):
    """A background job of any kind. Its result has its own address."""

    id = serializers.UUIDField(source="job.pk")
    kind = serializers.CharField(source="kind.name", help_text="The kind of job: training_runs, rollouts, imports, …")
    title = serializers.CharField()
    phase = serializers.ChoiceField(source="job.phase", choices=Phase.choices)
    state = serializers.CharField(source="job.state", help_text="The state, as its kind of job names it.")
    worker_queue = serializers.CharField(help_text="The worker queue that it's in.")
    worker = serializers.CharField(source="job.worker", help_text="host:process of the worker that holds the job.")
    attempt = serializers.IntegerField(source="job.attempt")
    losses = serializers.IntegerField(source="job.losses", help_text="Attempts lost in a row without progress.")
    loss = serializers.CharField(source="job.loss", help_text="Why the last attempt was lost.")
    headway = ProgressSerializer(source="job.headway", allow_null=True)
    error = serializers.CharField(source="job.error", help_text="Why the job failed, and what to do.")
    page = serializers.CharField(source="url", help_text="The path of its page.")
    queued_at = serializers.DateTimeField(source="job.queued_at", help_text="When the job was last queued.")
    started_at = serializers.DateTimeField(source="job.started_at", allow_null=True)
    finished_at = serializers.DateTimeField(source="job.finished_at", allow_null=True)


class JobsView(ListView):
    """The workspace's jobs."""

    needs = Role.OWNER

    @extend_schema(
        operation_id="jobs_list",
        summary="List jobs of every kind, newest first",
        parameters=[
            OpenApiParameter("phase", OpenApiTypes.STR, enum=Phase.values, many=True, description="Only these."),
            OpenApiParameter("kind", OpenApiTypes.STR, description="Only this one, such as training_runs."),
        ],
        responses=JobSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        phases = request.query_params.getlist("phase") or Phase.values
        if unknown := [phase for phase in phases if phase not in Phase.values]:
            raise ValidationError({"phase": [f"Got “{unknown[0][:60]}”; expected {', '.join(Phase.values)}."]})
        kind_name = request.query_params.get("kind", "")
        if kind_name and kind_named(kind_name) is None:
            kind_names = ", ".join(kind.name for kind in kinds())
            raise ValidationError({"kind": [f"Got “{kind_name[:60]}”; expected {kind_names}."]})
        jobs: Any = jobs_of(self.member, phases=[Phase(phase) for phase in phases], kind_name=kind_name)
        return self.page_of(jobs, JobSerializer)


class _ControlView(MemberView):
    needs = Role.OWNER

    def control(self, kind: str, job_id: UUID, act: Callable[..., Job]) -> Response:
        job = find_job(self.member, kind, job_id)
        try:
            job = act(job, by=self.member.user)
        except lifecycle.JobRefusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(JobSerializer(Row(kind_of_job(job), job)).data)


class CancelJobView(_ControlView):
    """Stop a job."""

    @extend_schema(
        operation_id="jobs_cancel",
        summary="Stop a job; what it has done is kept",
        request=None,
        responses={
            200: JobSerializer,
            409: OpenApiResponse(description="It has ended, or jobs of its kind can't be cancelled."),
        },
    )
    def post(self, request: Request, kind: str, job_id: UUID) -> Response:
        return self.control(kind, job_id, lifecycle.cancel)


class ResumeJobView(_ControlView):
    """Resume a job."""

    @extend_schema(
        operation_id="jobs_resume",
        summary="Queue a failed or stopped job again; it continues where it stopped",
        request=None,
        responses={200: JobSerializer, 409: OpenApiResponse(description="It can't be resumed.")},
    )
    def post(self, request: Request, kind: str, job_id: UUID) -> Response:
        return self.control(kind, job_id, lifecycle.resume)
