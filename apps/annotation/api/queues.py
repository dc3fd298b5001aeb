"""Queues and judgements over REST."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.annotation.api.of_queue import OfQueue, QueueSerializer
from apps.annotation.models import Correction, Inspection, Judgement, Mark, Preference, Queue, Rating, StepLabel
from apps.common.api import MemberView
from apps.common.pages import ApiCursorPagination

SOURCE = "The file that it came in with; empty: judged here."


class PreferenceSerializer(serializers.ModelSerializer[Preference]):
    """A judgement of a pair that nobody took back. `strength` is in favour of `a`: 3 much better … 0 tie … -3 `b` much better.

    So are `aspects`, each on the scale that the queue gave it. `confidence`: 1 unsure, 2 fairly sure, 3 sure.
    """

    task = serializers.CharField(source="item.task.key")
    a = serializers.UUIDField(source="item.a_id")
    b = serializers.UUIDField(source="item.b_id")
    annotator = serializers.CharField(source="annotator.name")
    annotator_kind = serializers.CharField(source="annotator.kind")
    annotator_source = serializers.CharField(source="annotator.source", help_text=SOURCE)

    class Meta:
        model = Preference
        fields = [
            *(
                "id",
                "item",
                "task",
                "a",
                "b",
                "annotator",
                "annotator_kind",
                "annotator_source",
                "strength",
                "both_bad",
            ),
            *("aspects", "confidence", "rationale"),
            *("a_was_left", "guideline_version", "seconds", "created_at"),
        ]
        read_only_fields = fields


class StepLabelSerializer(serializers.ModelSerializer[StepLabel]):
    """What was said of one step: 1 good, 0 neutral, -1 bad. `is_filled`: it followed from the first error."""

    class Meta:
        model = StepLabel
        fields = ["index", "value", "is_filled", "critique", "spans"]
        read_only_fields = fields


class CorrectionSerializer(serializers.ModelSerializer[Correction]):
    """A better action at one step, in place of the policy's own."""

    class Meta:
        model = Correction
        fields = ["index", "message", "origin", "policy"]
        read_only_fields = fields


class InspectionSerializer(serializers.ModelSerializer[Inspection]):
    """A run gone through step by step. `first_error`: index of the first wrong step, where one was found."""

    task = serializers.CharField(source="item.task.key")
    trajectory = serializers.UUIDField(source="item.a_id")
    annotator = serializers.CharField(source="annotator.name")
    annotator_kind = serializers.CharField(source="annotator.kind")
    annotator_source = serializers.CharField(source="annotator.source", help_text=SOURCE)
    labels = StepLabelSerializer(many=True)
    corrections = CorrectionSerializer(many=True)

    class Meta:
        model = Inspection
        fields = [
            *(
                "id",
                "item",
                "task",
                "trajectory",
                "annotator",
                "annotator_kind",
                "annotator_source",
                "ending",
                "first_error",
                "labels",
            ),
            *("corrections", "rationale", "guideline_version", "seconds", "created_at"),
        ]
        read_only_fields = fields


class MarkSerializer(serializers.ModelSerializer[Mark]):
    """Something that happened at one step."""

    class Meta:
        model = Mark
        fields = ["index", "kind", "note"]
        read_only_fields = fields


class RatingSerializer(serializers.ModelSerializer[Rating]):
    """A run rated as a whole. `answers`: key of a question -> its answer, from 1 up. `thumb`: 1 up, -1 down."""

    task = serializers.CharField(source="item.task.key")
    trajectory = serializers.UUIDField(source="item.a_id")
    annotator = serializers.CharField(source="annotator.name")
    annotator_kind = serializers.CharField(source="annotator.kind")
    annotator_source = serializers.CharField(source="annotator.source", help_text=SOURCE)
    marks = MarkSerializer(many=True)

    class Meta:
        model = Rating
        fields = [
            *(
                "id",
                "item",
                "task",
                "trajectory",
                "annotator",
                "annotator_kind",
                "annotator_source",
                "answers",
                "thumb",
                "marks",
            ),
            *("rationale", "guideline_version", "seconds", "created_at"),
        ]
        read_only_fields = fields


class QueuesView(MemberView):
    """GET /api/v1/queues"""

    pagination_class = ApiCursorPagination

    @extend_schema(operation_id="queues_list", responses=QueueSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The workspace's queues, newest first."""
        pages = self.pagination_class()
        rows = pages.paginate_queryset(Queue.objects.visible_to(self.member), request, self)
        return pages.get_paginated_response(
            QueueSerializer(rows or [], many=True, context={"member": self.member}).data
        )


class QueueView(OfQueue):
    """GET /api/v1/queues/<id>"""

    @extend_schema(operation_id="queues_retrieve", responses=QueueSerializer)
    def get(self, request: Request, queue_id: UUID) -> Response:
        """One queue."""
        return Response(QueueSerializer(self.queue(queue_id), context={"member": self.member}).data)


class JudgementsView(OfQueue):
    """The standing judgements of a queue, newest first."""

    needs = Judgement.visible_from
    pagination_class = ApiCursorPagination

    def page(self, request: Request, queue_id: UUID, model: Any, serializer: Any, *nested: str) -> Response:
        standing = model.objects.visible_to(self.member).standing().filter(queue=self.queue(queue_id))
        rows = standing.select_related("item__task", "annotator").prefetch_related(*nested)
        light = rows.defer("item__task__initial_state", "item__task__success_check", "item__task__instruction")
        pages = self.pagination_class()
        found: Any = pages.paginate_queryset(light, request, self)
        return pages.get_paginated_response(serializer(found or [], many=True).data)


class PreferencesView(JudgementsView):
    """GET /api/v1/queues/<id>/preferences"""

    @extend_schema(operation_id="queue_preferences_list", responses=PreferenceSerializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The standing judgements of a pairwise queue, newest first. Reviewers and above."""
        return self.page(request, queue_id, Preference, PreferenceSerializer)


class InspectionsView(JudgementsView):
    """GET /api/v1/queues/<id>/inspections"""

    @extend_schema(operation_id="queue_inspections_list", responses=InspectionSerializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The standing step labels and corrections of a queue, a run at a time, newest first. Reviewers and above."""
        return self.page(request, queue_id, Inspection, InspectionSerializer, "labels", "corrections")


class RatingsView(JudgementsView):
    """GET /api/v1/queues/<id>/ratings"""

    @extend_schema(operation_id="queue_ratings_list", responses=RatingSerializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The standing ratings of a queue, newest first. Reviewers and above."""
        return self.page(request, queue_id, Rating, RatingSerializer, "marks")
