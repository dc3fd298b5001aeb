"""REST for the desk: the next item to judge, and judging it. Reveals no more than the desk's page does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.annotation.desk import actions, assignments
from apps.annotation.desk.known_answers import feedback_text, lesson_of
from apps.annotation.kinds import KINDS, kind_of
from apps.annotation.kinds.questions import Asks, field_of
from apps.annotation.models import Assignment, Queue
from apps.annotation.queries import latest_guideline
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, MemberView, RequestSerializer, cleaned
from apps.common.api_forms import request_of
from apps.common.fair_share import enter_long
from apps.trajectories.models import Trajectory
from contract.quoting import legible

SHOWN_FIELDS = ("role", "content", "reasoning_content")
"""The message fields that are returned. A speaker's name may be a model's, and calls are normalized by `_call`."""


@extend_schema_field(
    {"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
class AnswerValue(serializers.JSONField):
    """The answer to a question."""


ANSWERS = {
    name: request_of(
        kind.form,
        f"{name.title()}Judgment",
        kind.form.__doc__ or "",
        answers=serializers.DictField(
            child=AnswerValue(),
            default=dict,
            help_text="Key of a question in the queue's `asks` -> its answer: a point or a grade (in favor of the left side), an option, a list of options, or "
            "text. Answers to questions that aren't asked, because of another answer, are dropped.",
        ),
    )
    for name, kind in KINDS.items()
}


class BlindStepSerializer(serializers.Serializer[Any]):
    """What the agent observed at a step, and its action."""

    context = serializers.ListField(child=serializers.DictField())  # type: ignore[assignment]  # every serializer has an attribute of this name
    message = serializers.DictField()


class BlindTrajectorySerializer(serializers.Serializer[Any]):
    """A trajectory without anything that reveals which policy generated it or how it ended."""

    side = serializers.CharField(help_text="`left` or `right` for a pair; `run` for a single trajectory.")
    steps = BlindStepSerializer(many=True)
    closing = serializers.ListField(child=serializers.DictField(), help_text="Messages after the last step.")


class DeskItemSerializer(serializers.Serializer[Any]):
    """An item on the annotator's desk."""

    id = serializers.UUIDField(help_text="Id of the assignment, used to judge or skip it.")
    queue = serializers.UUIDField()
    kind = serializers.ChoiceField(Queue.Kind.choices)
    leased_until = serializers.DateTimeField(
        help_text="Others get the item after this, unless it's requested again before."
    )
    instruction = serializers.CharField()
    guidelines = serializers.CharField()
    guideline_version = serializers.IntegerField()
    runs = BlindTrajectorySerializer(many=True)


class StoredJudgmentSerializer(serializers.Serializer[Any]):
    """A stored judgment."""

    assignment = serializers.UUIDField()
    feedback = serializers.CharField(
        help_text="For onboarding items: the right answer and the reason; otherwise empty."
    )


class NextView(MemberView):
    """POST /api/v1/queues/<id>/next"""

    keeps_answers = False  # a repeated request returns the current item, whose trajectories are large

    @extend_schema(
        operation_id="queue_next",
        summary="Take the next item of a queue, or get the current one again",
        request=None,
        responses={
            200: DeskItemSerializer,
            204: OpenApiResponse(description="Nothing is left for this person."),
            409: OpenApiResponse(description="The queue assigns no items now."),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue = get_object_or_404(Queue.objects.visible_to(self.member).for_desk(), pk=queue_id)
        try:
            assignment = assignments.next_assignment(queue=queue, annotator=assignments.annotator_of(self.member))
            if assignment is None:
                return Response(status=status.HTTP_204_NO_CONTENT)
            actions.keep(assignment=assignment)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(
            _item_data(request, Assignment.objects.of(self.member).with_trajectories().get(pk=assignment.pk))
        )


class JudgmentView(MemberView):
    """POST /api/v1/assignments/<id>/judgment"""

    @extend_schema(
        operation_id="assignment_judgment_create",
        summary="Judge an item on one's own desk",
        description="The fields depend on the queue's kind. Repeating the same judgment returns the first response.",
        request=PolymorphicProxySerializer("Judgment", list(ANSWERS.values()), resource_type_field_name=None),
        responses={201: StoredJudgmentSerializer, 409: OpenApiResponse(description="It's no longer on this desk.")},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        assignments = Assignment.objects.of(self.member).select_related("queue")
        assignment = get_object_or_404(assignments, pk=assignment_id)
        kind = kind_of(assignment.queue)
        serializer = ANSWERS[kind.name](data=request.data)
        serializer.is_valid(raise_exception=True)
        asks = kind.asked(assignment.queue)
        form = kind.form(_as_sent_by_pages(serializer.validated_data, asks), asks=asks)
        cleaned(form)
        _check_version(serializer.validated_data.get("guideline_version") or 0, assignment.queue)
        try:
            actions.record(assignment=assignment, answer=form.to_answer(assignment), **form.time_and_guidelines())
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        training_feedback = lesson_of(assignment)
        answer = {
            "assignment": assignment.pk,
            "feedback": feedback_text(training_feedback) if training_feedback else "",
        }
        return Response(StoredJudgmentSerializer(answer).data, status=status.HTTP_201_CREATED)


class ReasonSerializer(RequestSerializer):
    """The reason, for the researcher."""

    reason = serializers.CharField(max_length=300, default="", allow_blank=True)


class SkippedItemSerializer(serializers.Serializer[Any]):
    """An item that was passed on to others."""

    assignment = serializers.UUIDField()


class SkipView(MemberView):
    """POST /api/v1/assignments/<id>/skip"""

    @extend_schema(
        operation_id="assignment_skip",
        summary="Leave an item on one's own desk to others",
        request=ReasonSerializer,
        responses={
            200: SkippedItemSerializer,
            409: OpenApiResponse(description="It was judged or undone."),
        },
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        assignment = get_object_or_404(Assignment.objects.of(self.member).select_related("queue"), pk=assignment_id)
        serializer = ReasonSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            actions.skip(assignment=assignment, reason=serializer.validated_data["reason"])
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(SkippedItemSerializer({"assignment": assignment.pk}).data)


class UndoView(MemberView):
    """POST /api/v1/queues/<id>/undo"""

    @extend_schema(
        operation_id="queue_undo",
        summary="Undo one's latest judgment or skip in a queue; returns the item, which is current again",
        request=None,
        responses={200: DeskItemSerializer, 409: OpenApiResponse(description="There's nothing to undo.")},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue = get_object_or_404(Queue.objects.visible_to(self.member).for_desk(), pk=queue_id)
        try:
            assignment = actions.undo_last(queue=queue, annotator=assignments.annotator_of(self.member))
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(
            _item_data(request, Assignment.objects.of(self.member).with_trajectories().get(pk=assignment.pk))
        )


def _check_version(version: int, queue: Queue) -> None:
    """Judgments record which guidelines their author saw, so only those that exist."""
    guideline = latest_guideline(queue)
    latest = guideline.version if guideline else 0
    if version > latest:
        raise ValidationError({"guideline_version": [f"Got {version}, but the latest version is {latest}."]})


def _as_sent_by_pages(judgment: dict[str, Any], asks: Asks) -> dict[str, Any]:
    """The judgment as the desk's form reads it: lists as JSON, and a field for each question."""
    fields = {question.key: field_of(question) for question in asks.of_items}
    _refuse_unknown("answers", "an item question", judgment["answers"], fields)
    answers_of_steps = [row.get("answers") for row in judgment.get("step_answers", [])]
    given = {key for answers in answers_of_steps if isinstance(answers, dict) for key in answers}
    _refuse_unknown("step_answers", "a step question", given, [question.key for question in asks.of_steps])
    form_data = {name: json.dumps(value) if isinstance(value, list) else value for name, value in judgment.items()}
    return form_data | {fields[key]: grade for key, grade in judgment["answers"].items()}


def _refuse_unknown(field: str, noun: str, given: Iterable[str], known: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(known)):
        there_are = f"known: {', '.join(known)}" if known else "this queue has none"
        problem = f"“{legible(unknown[0], 60)}” isn't {noun} of this queue; {there_are}."
        raise ValidationError({field: [problem]})


def _item_data(request: Request, assignment: Assignment) -> dict[str, Any]:
    enter_long(request._request, steps=assignment.item.step_count)
    queue, guideline = assignment.queue, latest_guideline(assignment.queue)
    kind = kind_of(queue)
    sides = [(side, kind.trajectory_at(assignment, side)) for side in ("left", "right", "run")]
    return {
        "id": assignment.pk,
        "queue": queue.pk,
        "kind": queue.kind,
        "leased_until": assignment.leased_until,
        "instruction": assignment.item.task.instruction,
        "guidelines": guideline.text if guideline else "",
        "guideline_version": guideline.version if guideline else 0,
        "runs": [_blind(side, trajectory) for side, trajectory in sides if trajectory],
    }


def _blind(side: str, trajectory: Trajectory) -> dict[str, Any]:
    steps = trajectory.steps.order_by("index").only("context", "message")
    numbers: dict[str, str] = {}

    def blind_messages(messages: list[Any]) -> list[dict[str, Any]]:
        return [_blind_message(message, numbers) for message in messages]

    return {
        "side": side,
        "steps": [
            {"context": blind_messages(step.context), "message": _blind_message(step.message, numbers)}
            for step in steps
        ],
        "closing": blind_messages(trajectory.closing),
    }


def _blind_message(message: Any, numbers: dict[str, str]) -> dict[str, Any]:
    fields = message if isinstance(message, dict) else {"content": message}
    blind = {name: fields[name] for name in SHOWN_FIELDS if name in fields}
    calls, answered = fields.get("tool_calls"), fields.get("tool_call_id")
    if isinstance(calls, list):
        blind["tool_calls"] = [_call(call, numbers) for call in calls]
    if answered is not None:
        blind["tool_call_id"] = _number(answered, numbers)
    return blind


def _call(call: Any, numbers: dict[str, str]) -> dict[str, Any]:
    """The name and arguments of a call. Its id and extra fields would reveal the provider."""
    message_call = call if isinstance(call, dict) else {}
    function = message_call.get("function")
    fields = function if isinstance(function, dict) else {}
    return {
        "id": _number(message_call.get("id"), numbers),
        "type": "function",
        "function": {name: fields[name] for name in ("name", "arguments") if name in fields},
    }


def _number(call_id: Any, numbers: dict[str, str]) -> str:
    """A number that replaces the id of a call and of its result, in order of appearance in the trajectory."""
    return numbers.setdefault(str(call_id), f"call_{len(numbers) + 1}")
