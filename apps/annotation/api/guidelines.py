"""REST for a queue's guidelines."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.api.of_queue import OfQueue
from apps.annotation.models import Guideline
from apps.annotation.queues import queue_lifecycle
from apps.common.api import ListView, RequestSerializer
from apps.common.pages import ShortPages


class GuidelineSerializer(serializers.ModelSerializer[Guideline]):
    """One version of a queue's guidelines."""

    class Meta:
        model = Guideline
        fields = ["version", "text", "created_at"]
        read_only_fields = fields


class NewGuidelineSerializer(RequestSerializer):
    """The next version of the guidelines."""

    text = serializers.CharField(max_length=100_000, trim_whitespace=False, help_text="The guidelines, in Markdown.")


class GuidelinesView(ListView, OfQueue):
    """GET, POST /api/v1/queues/<id>/guidelines"""

    needs = Role.RESEARCHER
    pagination_class = ShortPages

    @extend_schema(
        operation_id="queue_guidelines_list",
        summary="List the versions of a queue's guidelines, newest first",
        responses=GuidelineSerializer(many=True),
    )
    def get(self, request: Request, queue_id: UUID) -> Response:
        return self.page_of(Guideline.objects.filter(queue=self.queue(queue_id)), GuidelineSerializer)

    @extend_schema(
        operation_id="queue_guidelines_create",
        summary="Add a version of the guidelines; the same text adds none",
        request=NewGuidelineSerializer,
        responses={201: GuidelineSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue, serializer = self.queue(queue_id), NewGuidelineSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        guideline = queue_lifecycle.revise_guidelines(
            queue=queue, text=serializer.validated_data["text"], by=self.member.user
        )
        guideline.refresh_from_db()
        return Response(GuidelineSerializer(guideline).data, status=status.HTTP_201_CREATED)
