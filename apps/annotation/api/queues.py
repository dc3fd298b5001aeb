"""REST for queues and judgments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar
from uuid import UUID

from django.http import QueryDict
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.api.of_queue import OfQueue, QueueSerializer
from apps.annotation.forms.queues import QueueForm
from apps.annotation.kinds import KINDS, PAIRWISE, RATING, STEPS, Kind
from apps.annotation.kinds.question_lines import read_aspects, read_lines
from apps.annotation.models import Judgment, Queue
from apps.annotation.queues.queue_lifecycle import create_queue
from apps.annotation.queues.sources import Selection
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, ListView, cleaned
from apps.common.api_forms import request_of
from apps.common.pages import ShortPages
from apps.trajectories.filters import BadFilter, Filters
from contract.questions import BadQuestions
from contract.quoting import legible
from contract.schemas import questions_schema

questions_help = str(QueueForm.base_fields["questions"].help_text)


@extend_schema_field(questions_schema())
class QuestionsValue(serializers.JSONField):
    """Questions in the format of `contract.questions`."""


def asked_questions(kind: str, body: Mapping[str, Any]) -> Any:
    """The questions in a request, in either notation. Raises ValidationError."""
    allowed = KINDS[kind].asks.allowed
    try:
        if body["aspects"] is not None and allowed.comparisons:
            return [question.to_json() for question in read_aspects(body["aspects"], allowed)]
        if isinstance(body["questions"], str) and not body["questions"].lstrip().startswith(("[", "{")):
            return [question.to_json() for question in read_lines(body["questions"], allowed)]
    except BadQuestions as problem:
        raise ValidationError({"aspects" if body["aspects"] is not None else "questions": [str(problem)]}) from None
    return body["questions"]


def refuse_unknown_filters(query: str) -> None:
    """Refuse unknown filter names, since ignoring a misspelled one would select everything. Raises ValidationError."""
    filter_names = [field.name for field in fields(Filters)]
    if unknown := sorted(QueryDict(query).keys() - set(filter_names)):
        raise ValidationError(f"“{legible(unknown[0], 60)}” isn't a filter; known: {', '.join(filter_names)}.")


NewQueueSerializer = request_of(
    QueueForm,
    "NewQueue",
    "A queue to create. Fields that don't apply to its kind are ignored.",
    names={"judged": "kind"},
    questions=QuestionsValue(
        default=None,
        allow_null=True,
        help_text=f"{questions_help} Text is read in an older notation, one question per line.",
    ),
    aspects=serializers.CharField(
        default=None,
        allow_null=True,
        allow_blank=True,
        max_length=10_000,
        help_text="Older notation: one comparison per line, such as “Safety: 3”. Use `questions`.",
    ),
    trajectories=serializers.ListField(
        child=serializers.UUIDField(), default=list, max_length=10_000, help_text="Exactly these trajectories."
    ),
    filter=serializers.CharField(
        default="",
        allow_blank=True,
        max_length=2000,
        validators=[refuse_unknown_filters],
        help_text="If no ids are given: the query string of a list of trajectories, such as `batch=<id>`; empty: all.",
    ),
)


class QueuesView(ListView):
    """GET, POST /api/v1/queues"""

    needs_to_write = Role.RESEARCHER

    @extend_schema(operation_id="queues_list", responses=QueueSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The workspace's queues, newest first."""
        return self.page_of(Queue.objects.visible_to(self.member), QueueSerializer)

    @extend_schema(
        operation_id="queues_create",
        request=NewQueueSerializer,
        responses={201: QueueSerializer, 409: OpenApiResponse(description="The selection gives no items.")},
    )
    def post(self, request: Request) -> Response:
        """Create a queue of trajectories; a worker fills it. Researchers and above."""
        serializer = NewQueueSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        kind = serializer.validated_data["kind"] or QueueForm.base_fields["judged"].initial
        fields = {**serializer.validated_data, "judged": kind}
        fields["questions"] = asked_questions(kind, fields)
        workspace = self.member.workspace
        form = QueueForm({name: value for name, value in fields.items() if value is not None}, workspace=workspace)
        cleaned(form)
        ids = fields["trajectories"]
        try:
            queue = create_queue(
                workspace=workspace,
                created_by=self.member.user,
                selection=Selection(ids=ids, filter="" if ids else fields["filter"]),
                pairing=form.pairing(),
                **form.settings(),
            )
        except BadFilter as problem:
            raise ValidationError({"filter": [str(problem)]}) from None
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(QueueSerializer(queue, context={"member": self.member}).data, status=status.HTTP_201_CREATED)


class QueueView(OfQueue):
    """GET /api/v1/queues/<id>"""

    @extend_schema(operation_id="queues_retrieve", responses=QueueSerializer)
    def get(self, request: Request, queue_id: UUID) -> Response:
        """One queue."""
        return Response(QueueSerializer(self.queue(queue_id), context={"member": self.member}).data)


class JudgmentsView(ListView, OfQueue):
    """The valid judgments of a queue, newest first."""

    needs = Judgment.visible_from
    pagination_class = ShortPages

    kind: ClassVar[Kind[Any, Any, Any]]

    def page(self, queue_id: UUID) -> Response:
        valid = self.kind.valid_judgments.visible_to(self.member).filter(queue=self.queue(queue_id))
        rows = valid.select_related("item__task", "annotator").prefetch_related(*self.kind.nested)
        light = rows.defer("item__task__initial_state", "item__task__success_check", "item__task__instruction")
        return self.page_of(light, self.kind.serializer)


class PreferencesView(JudgmentsView):
    """GET /api/v1/queues/<id>/preferences"""

    kind = PAIRWISE

    @extend_schema(operation_id="queue_preferences_list", responses=PAIRWISE.serializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The valid judgments of a pairwise queue, newest first. Reviewers and above."""
        return self.page(queue_id)


class InspectionsView(JudgmentsView):
    """GET /api/v1/queues/<id>/inspections"""

    kind = STEPS

    @extend_schema(operation_id="queue_inspections_list", responses=STEPS.serializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The valid step labels and corrections of a queue, grouped by judged trajectory, newest first. Reviewers and above."""
        return self.page(queue_id)


class RatingsView(JudgmentsView):
    """GET /api/v1/queues/<id>/ratings"""

    kind = RATING

    @extend_schema(operation_id="queue_ratings_list", responses=RATING.serializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The valid ratings of a queue, newest first. Reviewers and above."""
        return self.page(queue_id)
