"""REST for review: disputed items, and deciding them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.api.of_queue import OfQueue
from apps.annotation.kinds import kind_of
from apps.annotation.models import Adjudication, Item
from apps.annotation.models.items import open_items_of
from apps.annotation.queries import valid_judgments_by_item
from apps.annotation.refusals import Refusal
from apps.annotation.review.adjudication import adjudicate, awaiting_review
from apps.common.api import Conflict, ListView, RequestSerializer
from apps.common.pages import ApiCursorPagination


class InOrder(ApiCursorPagination):
    """Items in the queue's order."""

    ordering = "position"


class DisputedSerializer(serializers.ModelSerializer[Item]):
    """An item with contradicting judgments and no decision. `a`: its trajectory, or the first of the pair."""

    task = serializers.CharField(source="task.key")
    judgments = serializers.SerializerMethodField()

    class Meta:
        model = Item
        fields = ["id", "position", "task", "a", "b", "judgments"]
        read_only_fields = fields

    def get_judgments(self, item: Item) -> list[UUID]:
        """Ids of the valid judgments, oldest first."""
        judgments: dict[int, list[UUID]] = self.context["judgments"]
        return judgments.get(item.pk, [])


class AdjudicationSerializer(serializers.ModelSerializer[Adjudication]):
    """A reviewer's decision. For a pair, a grade in favor of `a`; for a single trajectory, the judgment that is upheld (`upheld`)."""

    by = serializers.CharField(source="by.name", default="", read_only=True)

    class Meta:
        model = Adjudication
        fields = ["id", "item", "by", "strength", "both_bad", "upheld", "reason", "was_blind", "created_at"]
        read_only_fields = fields


class NewAdjudicationSerializer(RequestSerializer):
    """A decision: `strength` or `both_bad` for a pair, `upheld` for a single trajectory."""

    item = serializers.IntegerField(help_text="An item of this queue, disputed or not.")
    strength = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=-3,
        max_value=3,
        help_text="3 a much better … 0 tie … -3 b much better.",
    )
    both_bad = serializers.BooleanField(default=False)
    upheld = serializers.UUIDField(default=None, allow_null=True, help_text="Id of a judgment of this item.")
    reason = serializers.CharField(max_length=5000, help_text="The annotator reads it, without your name.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The required fields depend on the queue's kind."""
        item = Item.objects.filter(queue=self.context["queue"], pk=attrs["item"]).first()
        if item is None:
            raise ValidationError({"item": [f"There is no item {attrs['item']} in this queue."]})
        if problem := kind_of(item).decision_problem(attrs):
            field, message = problem
            raise ValidationError({field: [message]})
        return {**attrs, "item": item, "strength": 0 if attrs["both_bad"] else attrs["strength"]}


class ReviewView(OfQueue):
    """Base of the views of one queue's review."""

    needs = Role.REVIEWER


class DisputedView(ReviewView):
    """GET /api/v1/queues/<id>/disputed"""

    pagination_class = InOrder

    @extend_schema(
        operation_id="queue_disputed_list",
        summary="List disputed items without a decision, in the queue's order",
        responses=DisputedSerializer(many=True),
    )
    def get(self, request: Request, queue_id: UUID) -> Response:
        queue, pages = self.queue(queue_id), self.pagination_class()
        waiting = (
            awaiting_review(queue)
            .exclude(pk__in=open_items_of(self.member))
            .select_related("task")
            .only("queue", "position", "task__key", "a", "b")
        )
        items = pages.paginate_queryset(waiting, request, self) or []
        context = {"judgments": valid_judgments_by_item(queue, items)}
        return pages.get_paginated_response(DisputedSerializer(items, many=True, context=context).data)


class AdjudicationsView(ListView, ReviewView):
    """Decisions in one queue."""

    @extend_schema(
        operation_id="queue_adjudications_list",
        summary="List the current decisions, newest first",
        responses=AdjudicationSerializer(many=True),
    )
    def get(self, request: Request, queue_id: UUID) -> Response:
        visible = Adjudication.objects.visible_to(self.member)
        holding = visible.valid().filter(queue=self.queue(queue_id)).select_related("by")
        return self.page_of(holding, AdjudicationSerializer)

    @extend_schema(
        operation_id="queue_adjudications_create",
        summary="Decide an item",
        description="Replaces the item's previous decision. It doesn't count as blind, since tokens can read the judgments.",
        request=NewAdjudicationSerializer,
        responses={
            201: AdjudicationSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="Nobody judged it, or the judgment to uphold was withdrawn."),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue = self.queue(queue_id)
        serializer = NewAdjudicationSerializer(data=request.data, context={"queue": queue})
        serializer.is_valid(raise_exception=True)
        try:
            adjudication = adjudicate(by=self.member.user, blind=False, **serializer.validated_data)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(AdjudicationSerializer(adjudication).data, status=status.HTTP_201_CREATED)
