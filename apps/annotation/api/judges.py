"""REST for machine annotators: adding them to a queue, monitoring and controlling them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.api.of_queue import OfQueue
from apps.annotation.forms.settings import BudgetForm, JudgeForm
from apps.annotation.judges import enrollment
from apps.annotation.judges.judge_performance import rows_of
from apps.annotation.models import Judge, JudgePrompt, Queue
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, RequestSerializer, cleaned
from apps.common.pages import ApiCursorPagination


class ProportionSerializer(serializers.Serializer[Any]):
    """`count` of `of`, with its 95% interval; null if `of` is 0."""

    count = serializers.IntegerField()
    of = serializers.IntegerField()
    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class PromptSerializer(serializers.ModelSerializer[JudgePrompt]):
    """A judge's prompt."""

    class Meta:
        model = JudgePrompt
        fields = ["version", "text"]
        read_only_fields = fields


class JudgeSerializer(serializers.Serializer[Any]):
    """A model judging a queue: its progress, its cost, and its agreement with people and with itself."""

    id = serializers.UUIDField(source="judge.id")
    policy = serializers.UUIDField(source="judge.annotator.policy_id", allow_null=True)
    name = serializers.CharField(source="judge.annotator.name")
    mode = serializers.ChoiceField(source="judge.mode", choices=Judge.Mode.choices)
    state = serializers.ChoiceField(
        source="judge.state_so_far",
        choices=[(s.value, s.label) for s in Judge.State if s not in (Judge.State.WAITING, Judge.State.PAUSING)],
    )
    error = serializers.CharField(source="judge.error", help_text="Why the judge stopped.")
    answered = serializers.IntegerField(source="judge.answered", help_text="Number of pairs that it has judged.")
    failed = serializers.IntegerField(source="judge.failed", help_text="Pairs without a usable answer.")
    prompt_tokens = serializers.IntegerField(source="judge.prompt_tokens")
    completion_tokens = serializers.IntegerField(source="judge.completion_tokens")
    cost = serializers.FloatField(source="judge.cost", help_text="Cost so far, at the prices given.")
    most_cost = serializers.FloatField(
        source="judge.most_cost", allow_null=True, help_text="The judge pauses at this cost."
    )
    prompt = PromptSerializer(allow_null=True)
    with_people = ProportionSerializer(
        help_text="Pairs with a majority of people on which it prefers the same side. Like the other shares, of answers with the current version of the prompt."
    )
    right_on_gold = ProportionSerializer()
    steady = ProportionSerializer(
        help_text="Pairs asked in both orders on which it prefers the same trajectory. Chance level is ½."
    )
    left = ProportionSerializer(help_text="The share of chosen sides that were shown on the left.")
    created_at = serializers.DateTimeField(source="judge.created_at")


class NewJudgeSerializer(RequestSerializer):
    """A model to add. A reward model needs no prompt and no prices."""

    policy = serializers.UUIDField(help_text="A served model or a reward model.")
    mode = serializers.ChoiceField(choices=Judge.Mode.choices, default=Judge.Mode.PRELABEL)
    prompt = serializers.CharField(default=enrollment.DEFAULT_PROMPT, max_length=20_000, help_text="What to look for.")
    requests_a_minute = serializers.IntegerField(default=60, help_text="Two per pair, since both orders are asked.")
    prompt_price = serializers.FloatField(default=0.0, help_text="Price of a million prompt tokens.")
    completion_price = serializers.FloatField(default=0.0, help_text="Price of a million completion tokens.")
    most_cost = serializers.FloatField(default=None, allow_null=True, help_text="The judge pauses at this cost.")


class ResumeJudgeSerializer(RequestSerializer):
    """How to go on."""

    most_cost = serializers.FloatField(
        required=False, allow_null=True, help_text="A new budget; null for none. If omitted, it stays as it is."
    )


class _JudgesQueueView(OfQueue):
    needs = Role.RESEARCHER

    def answer(self, queue: Queue, judge_id: UUID, code: int = status.HTTP_200_OK) -> Response:
        """The judge's current state."""
        (row,) = rows_of(queue, [self.judge(queue, judge_id)])
        return Response(JudgeSerializer(row).data, status=code)

    def judge(self, queue: Queue, judge_id: UUID) -> Judge:
        return get_object_or_404(queue.judges.select_related("annotator__policy"), pk=judge_id)

    def steer(self, act: Callable[..., object], queue_id: UUID, judge_id: UUID) -> Response:
        """Apply `act` to one judge."""
        queue = self.queue(queue_id)
        act(judge=self.judge(queue, judge_id), by=self.member.user)
        return self.answer(queue, judge_id)


class JudgesView(_JudgesQueueView):
    """The models judging a queue."""

    pagination_class = ApiCursorPagination

    @extend_schema(
        operation_id="queue_judges_list",
        summary="List a queue's machine annotators, newest first",
        responses=JudgeSerializer(many=True),
    )
    def get(self, request: Request, queue_id: UUID) -> Response:
        queue, pages = self.queue(queue_id), self.pagination_class()
        judges = pages.paginate_queryset(queue.judges.select_related("annotator__policy"), request, self)
        return pages.get_paginated_response(JudgeSerializer(rows_of(queue, judges or []), many=True).data)

    @extend_schema(
        operation_id="queue_judges_create",
        summary="Add a served model or a reward model as an annotator of a queue of pairs",
        description="`prelabel` judges in addition to people, without taking up slots; `join` takes slots like a person. A worker starts at once.",
        request=NewJudgeSerializer,
        responses={
            201: JudgeSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="It already judges here, or this isn't a queue of pairs."),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue = self.queue(queue_id)
        serializer = NewJudgeSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        settings = cleaned(JudgeForm(serializer.validated_data, workspace=self.member.workspace))
        try:
            judge = enrollment.send_judge(queue=queue, by=self.member.user, **settings)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return self.answer(queue, judge.pk, status.HTTP_201_CREATED)


class JudgeView(_JudgesQueueView):
    """One model judging a queue."""

    @extend_schema(
        operation_id="queue_judges_read", summary="Read the state of a machine annotator", responses=JudgeSerializer
    )
    def get(self, request: Request, queue_id: UUID, judge_id: UUID) -> Response:
        return self.answer(self.queue(queue_id), judge_id)


class PauseView(_JudgesQueueView):
    """Pause a judge."""

    @extend_schema(
        operation_id="queue_judges_pause",
        summary="Pause a machine annotator after its current pair",
        request=None,
        responses=JudgeSerializer,
    )
    def post(self, request: Request, queue_id: UUID, judge_id: UUID) -> Response:
        return self.steer(enrollment.pause_judge, queue_id, judge_id)


class ResumeView(_JudgesQueueView):
    """Resume a judge."""

    @extend_schema(
        operation_id="queue_judges_resume",
        summary="Resume a machine annotator: after a pause, after errors, or because the queue grew",
        description="A judge that has spent its budget needs a higher one.",
        request=ResumeJudgeSerializer,
        responses={200: JudgeSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request, queue_id: UUID, judge_id: UUID) -> Response:
        judge = self.judge(self.queue(queue_id), judge_id)
        serializer = ResumeJudgeSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        if "most_cost" in serializer.validated_data:
            budget = cleaned(BudgetForm(serializer.validated_data))
            enrollment.set_budget(judge=judge, by=self.member.user, **budget)
        return self.steer(enrollment.resume_judge, queue_id, judge_id)
