"""Queues and judgements over REST."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.annotation.api.of_queue import OfQueue, QueueSerializer
from apps.annotation.kinds import PAIRWISE, RATING, STEPS, Kind
from apps.annotation.models import Judgement, Queue
from apps.common.api import MemberView
from apps.common.pages import ApiCursorPagination


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

    kind: ClassVar[Kind[Any, Any, Any]]

    def page(self, request: Request, queue_id: UUID) -> Response:
        standing = self.kind.standing.visible_to(self.member).filter(queue=self.queue(queue_id))
        rows = standing.select_related("item__task", "annotator").prefetch_related(*self.kind.nested)
        light = rows.defer("item__task__initial_state", "item__task__success_check", "item__task__instruction")
        pages = self.pagination_class()
        found: Any = pages.paginate_queryset(light, request, self)
        return pages.get_paginated_response(self.kind.serializer(found or [], many=True).data)


class PreferencesView(JudgementsView):
    """GET /api/v1/queues/<id>/preferences"""

    kind = PAIRWISE

    @extend_schema(operation_id="queue_preferences_list", responses=PAIRWISE.serializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The standing judgements of a pairwise queue, newest first. Reviewers and above."""
        return self.page(request, queue_id)


class InspectionsView(JudgementsView):
    """GET /api/v1/queues/<id>/inspections"""

    kind = STEPS

    @extend_schema(operation_id="queue_inspections_list", responses=STEPS.serializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The standing step labels and corrections of a queue, a run at a time, newest first. Reviewers and above."""
        return self.page(request, queue_id)


class RatingsView(JudgementsView):
    """GET /api/v1/queues/<id>/ratings"""

    kind = RATING

    @extend_schema(operation_id="queue_ratings_list", responses=RATING.serializer(many=True))
    def get(self, request: Request, queue_id: UUID) -> Response:
        """The standing ratings of a queue, newest first. Reviewers and above."""
        return self.page(request, queue_id)
