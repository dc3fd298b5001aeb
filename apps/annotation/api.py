"""Queues and judgements over REST."""

from __future__ import annotations

from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.annotation.models import Preference, Queue
from apps.common.api import MemberView
from apps.common.pages import ApiCursorPagination


class QueueSerializer(serializers.ModelSerializer[Queue]):
    """A queue of pairs to judge."""

    class Meta:
        model = Queue
        fields = [
            *("id", "name", "kind", "state", "order", "overlap", "lease_seconds", "skipped_come_back"),
            *("item_count", "items_expected", "created_at"),
        ]
        read_only_fields = fields


class PreferenceSerializer(serializers.ModelSerializer[Preference]):
    """A judgement of a pair that nobody took back. `strength` is in favour of `a`: 3 much better … 0 tie … -3 `b` much better."""

    task = serializers.CharField(source="item.task.key")
    a = serializers.UUIDField(source="item.a_id")
    b = serializers.UUIDField(source="item.b_id")
    annotator = serializers.CharField(source="annotator.name")
    annotator_kind = serializers.CharField(source="annotator.kind")

    class Meta:
        model = Preference
        fields = [
            *("id", "item", "task", "a", "b", "annotator", "annotator_kind", "strength", "both_bad", "rationale"),
            *("a_was_left", "guideline_version", "seconds", "created_at"),
        ]
        read_only_fields = fields


class QueuesView(MemberView):
    """GET /api/v1/queues"""

    @extend_schema(operation_id="queues_list", responses=QueueSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The workspace's queues, newest first."""
        pages = ApiCursorPagination()
        rows = pages.paginate_queryset(Queue.objects.visible_to(self.member), request, self)
        return pages.get_paginated_response(QueueSerializer(rows or [], many=True).data)


class QueueView(MemberView):
    """GET /api/v1/queues/<id>"""

    @extend_schema(operation_id="queues_retrieve", responses=QueueSerializer)
    def get(self, request: Request, queue_id: UUID) -> Response:
        """One queue."""
        return Response(QueueSerializer(get_object_or_404(Queue.objects.visible_to(self.member), pk=queue_id)).data)


class PreferencesView(MemberView):
    """GET /api/v1/queues/<id>/preferences"""

    @extend_schema(operation_id="queue_preferences_list", responses=PreferenceSerializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The queue's standing judgements, newest first. Reviewers and above."""
        queue = get_object_or_404(Queue.objects.visible_to(self.member, at_least=Preference.visible_from), pk=queue_id)
        standing = Preference.objects.visible_to(self.member).standing().filter(queue=queue)
        rows = standing.select_related("item__task", "annotator").defer(
            "item__task__initial_state", "item__task__success_check", "item__task__instruction"
        )
        pages = ApiCursorPagination()
        found = pages.paginate_queryset(rows, request, self)
        return pages.get_paginated_response(PreferenceSerializer(found or [], many=True).data)
