"""REST for rollouts: start, poll, cancel, resume."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.jobs import lifecycle
from apps.policies.models import Policy
from apps.training.runner_rollouts import (
    DEADLINE_SECONDS,
    LEASE_SECONDS,
    MAX_DEADLINE_SECONDS,
    MAX_RUNNER_CALLS,
    start_for_runners,
)
from apps.training.task_list import MAX_TASKS, BadTask, read_task
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import rollout_batches
from apps.trajectories.rollouts.rollout_batches import MAX_STEPS
from contract.trajectory import Task


class RolloutsSerializer(serializers.ModelSerializer[RolloutBatch]):
    """A policy's attempts at tasks. `/trajectories?rollouts=<id>` lists the resulting trajectories."""

    url = serializers.SerializerMethodField()
    error = serializers.CharField()

    class Meta:
        model = RolloutBatch
        fields = [
            *("id", "url", "policy", "environment", "config", "state", "total", "finished", "succeeded"),
            *("error", "losses", "loss", "failure", "attempt", "worker", "created_at", "started_at", "finished_at"),
        ]
        read_only_fields = fields

    def get_url(self, batch: RolloutBatch) -> str:
        """The address to poll."""
        return reverse("rollout", kwargs={"batch_id": batch.pk}, request=self.context["request"])


class NewRolloutsSerializer(RequestSerializer):
    """Which policy attempts which tasks, and how often. The same seed draws the same tasks."""

    policy = serializers.UUIDField(help_text="A language model, a script, or a served model.")
    environment = serializers.CharField(max_length=100)
    split = serializers.ChoiceField(choices=["held_out", "train"], default="held_out")
    levels = serializers.ListField(
        child=serializers.CharField(max_length=20),
        default=list,
        help_text="If omitted, the environment's default levels.",
    )
    count = serializers.IntegerField(default=30, min_value=1, max_value=5000, help_text="Number of tasks.")
    samples = serializers.IntegerField(default=1, min_value=1, max_value=64, help_text="Attempts per task.")
    temperature = serializers.FloatField(default=1.0, min_value=0, max_value=5)
    steps = serializers.IntegerField(
        default=20,
        min_value=1,
        max_value=MAX_RUNNER_CALLS,
        help_text=f"An attempt is cut off after this many steps, at most {MAX_STEPS}, or with runners after this many calls.",
    )
    tool_calls = serializers.ChoiceField(
        choices=["native", "react"], default="native", help_text="react: plain text, for models without tool calling."
    )
    seed = serializers.IntegerField(default=0, min_value=0, max_value=2**31 - 1)
    played_by = serializers.ChoiceField(
        choices=["retrace", "runners"],
        default="retrace",
        help_text="runners: your own programs lease the episodes; the policy answers them through the gateway.",
    )
    tasks = serializers.ListField(
        child=serializers.JSONField(),
        default=list,
        max_length=MAX_TASKS,
        help_text="With runners: the tasks, each {key, instruction, initial_state, success_check, category, difficulty, held_out}. If omitted, drawn from the environment's tasks that the workspace has attempts at.",
    )
    lease_seconds = serializers.IntegerField(
        default=LEASE_SECONDS,
        min_value=10,
        max_value=3600,
        help_text="With runners: after this long without a call or a renewal, the episode is leased to another runner.",
    )
    deadline_seconds = serializers.IntegerField(
        default=DEADLINE_SECONDS,
        min_value=10,
        max_value=MAX_DEADLINE_SECONDS,
        help_text="With runners, from the first lease: episodes not played by then are left out.",
    )

    def validate_tasks(self, tasks: list[Any]) -> list[Task]:
        try:
            return [read_task(task, f"Task {number}") for number, task in enumerate(tasks, start=1)]
        except BadTask as problem:
            raise ValidationError(str(problem)) from None

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["tasks"] and attrs["played_by"] != "runners":
            raise ValidationError({"tasks": ["Only runners play listed tasks: set played_by to runners."]})
        if attrs["steps"] > MAX_STEPS and attrs["played_by"] != "runners":
            raise ValidationError({"steps": [f"This is too large. Give {MAX_STEPS} or less."]})
        return attrs


class RolloutsView(ListView):
    """The workspace's rollouts."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="rollouts_create",
        summary="Let a policy attempt tasks",
        request=NewRolloutsSerializer,
        responses={201: RolloutsSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        serializer = NewRolloutsSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = serializer.validated_data
        policy = Policy.objects.visible_to(self.member).filter(pk=data["policy"]).first()
        if policy is None:
            raise ValidationError({"policy": ["There is no such policy in this workspace."]})
        start = self._of_runners if data["played_by"] == "runners" else self._of_retrace
        try:
            batch = start(policy, data)
        except rollout_batches.RolloutRefused as refusal:
            raise ValidationError({"detail": [str(refusal)]}) from None
        answer = RolloutsSerializer(batch, context={"request": request}).data
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Location": answer["url"]})

    def _of_retrace(self, policy: Policy, data: dict[str, Any]) -> RolloutBatch:
        return rollout_batches.start_rollouts(
            workspace=self.member.workspace,
            policy=policy,
            environment=data["environment"],
            tasks={name: data[name] for name in ("split", "levels", "count", "seed")},
            samples=data["samples"],
            seed=data["seed"],
            sampling={"temperature": data["temperature"]},
            budget={"steps": data["steps"]},
            tool_calls=data["tool_calls"],
            by=self.member.user,
        )

    def _of_runners(self, policy: Policy, data: dict[str, Any]) -> RolloutBatch:
        drawn = {name: data[name] for name in ("split", "levels", "count", "seed", "samples")}
        return start_for_runners(
            member=self.member,
            policy=policy,
            environment=data["environment"],
            listed=data["tasks"],
            max_calls=data["steps"],
            lease_seconds=data["lease_seconds"],
            deadline_seconds=data["deadline_seconds"],
            **drawn,
        )

    @extend_schema(
        operation_id="rollouts_list", summary="List rollouts, newest first", responses=RolloutsSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(RolloutBatch.objects.visible_to(self.member), RolloutsSerializer)


class _OneBatch(MemberView):
    needs = Role.RESEARCHER

    def find(self, pk: UUID) -> RolloutBatch:
        return get_object_or_404(RolloutBatch.objects.visible_to(self.member).select_related("policy"), pk=pk)

    def answer(self, request: Request, batch: RolloutBatch) -> Response:
        headers = {"Retry-After": "2"} if batch.is_active else {}
        return Response(RolloutsSerializer(batch, context={"request": request}).data, headers=headers)


class RolloutView(_OneBatch):
    """One batch of rollouts."""

    @extend_schema(operation_id="rollouts_read", summary="Read the progress of rollouts", responses=RolloutsSerializer)
    def get(self, request: Request, batch_id: UUID) -> Response:
        return self.answer(request, self.find(batch_id))


class CancelRolloutsView(_OneBatch):
    """Cancel rollouts."""

    @extend_schema(
        operation_id="rollouts_cancel",
        summary="Stop rollouts; what has arrived stays",
        request=None,
        responses={200: RolloutsSerializer, 409: OpenApiResponse(description="They have already ended.")},
    )
    def post(self, request: Request, batch_id: UUID) -> Response:
        try:
            batch = lifecycle.cancel(self.find(batch_id), by=self.member.user)
        except lifecycle.NotActive as refusal:
            raise Conflict(str(refusal)) from None
        return self.answer(request, batch)


class ResumeRolloutsView(_OneBatch):
    """Resume rollouts."""

    @extend_schema(
        operation_id="rollouts_resume",
        summary="Resume cancelled or failed rollouts; no episode is played twice",
        request=None,
        responses={200: RolloutsSerializer, 409: OpenApiResponse(description="They cannot be resumed.")},
    )
    def post(self, request: Request, batch_id: UUID) -> Response:
        try:
            batch = lifecycle.resume(self.find(batch_id), by=self.member.user)
        except lifecycle.NotResumable as refusal:
            raise Conflict(str(refusal)) from None
        return self.answer(request, batch)
