"""REST to pause, resume, and close a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.api.of_queue import OfQueue, QueueSerializer
from apps.annotation.queues import queue_lifecycle
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict


class _StateView(OfQueue):
    """Base of the views that change a queue's state."""

    needs = Role.RESEARCHER
    act: ClassVar[Callable[..., None]]

    def change(self, queue_id: UUID) -> Response:
        queue = self.queue(queue_id)
        try:
            type(self).act(queue=queue, by=self.member.user)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(QueueSerializer(queue, context={"member": self.member}).data)


NOT_NOW = OpenApiResponse(description="The queue is in another state.")


class PauseQueueView(_StateView):
    """POST /api/v1/queues/<id>/pause"""

    act = queue_lifecycle.pause_queue

    @extend_schema(
        operation_id="queues_pause",
        summary="Stop assigning items",
        request=None,
        responses={200: QueueSerializer, 409: NOT_NOW},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        return self.change(queue_id)


class ResumeQueueView(_StateView):
    """POST /api/v1/queues/<id>/resume"""

    act = queue_lifecycle.resume_queue

    @extend_schema(
        operation_id="queues_resume",
        summary="Resume assigning items, also after closing",
        request=None,
        responses={200: QueueSerializer, 409: NOT_NOW},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        return self.change(queue_id)


class CloseQueueView(_StateView):
    """POST /api/v1/queues/<id>/close"""

    act = queue_lifecycle.close_queue

    @extend_schema(
        operation_id="queues_close",
        summary="End a queue; its judgments stay",
        request=None,
        responses={200: QueueSerializer, 409: NOT_NOW},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        return self.change(queue_id)
