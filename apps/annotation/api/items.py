"""REST for a queue's items, and for the known answers of gold and onboarding items."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.api.of_queue import OfQueue
from apps.annotation.api.queue_settings import QueueSettingsSerializer
from apps.annotation.api.reviews import InOrder
from apps.annotation.forms.settings import DrawGoldForm, KnownForm
from apps.annotation.models import Item
from apps.annotation.models.items import open_items_of
from apps.annotation.queries import assignees_of
from apps.annotation.queues import known_answers
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, RequestSerializer, cleaned
from apps.common.api_forms import request_of


class ItemSerializer(serializers.ModelSerializer[Item]):
    """An item of a queue. `a`: its trajectory, or the first of the pair."""

    task = serializers.CharField(source="task.key")
    disputed = serializers.SerializerMethodField()
    assignees = serializers.SerializerMethodField()

    class Meta:
        model = Item
        fields = ["id", "position", "task", "a", "b", "purpose", "overlap", "taken", "judged", "disputed", "assignees"]
        read_only_fields = fields

    def get_disputed(self, item: Item) -> bool | None:
        """Whether judgments contradict each other; null if you haven't judged it yet yourself."""
        return None if item.pk in self.context["on_my_desk"] else item.disputed

    def get_assignees(self, item: Item) -> list[str]:
        """Names of those it's assigned to; empty if it's for everybody."""
        assignees: dict[int, list[str]] = self.context["assignees"]
        return assignees.get(item.pk, [])


class ItemsView(OfQueue):
    """GET /api/v1/queues/<id>/items"""

    needs = Role.REVIEWER
    pagination_class = InOrder

    @extend_schema(
        operation_id="queue_items_list",
        summary="List a queue's items in its order",
        responses=ItemSerializer(many=True),
    )
    def get(self, request: Request, queue_id: UUID) -> Response:
        queue, pages = self.queue(queue_id), self.pagination_class()
        light = ("queue", "position", "task__key", "a", "b", "purpose", "overlap", "taken", "judged", "disputed")
        rows = Item.objects.filter(queue=queue).select_related("task").only(*light)
        items = pages.paginate_queryset(rows, request, self) or []
        on_my_desk = set(open_items_of(self.member).filter(queue=queue))
        context = {"assignees": assignees_of(items), "on_my_desk": on_my_desk}
        return pages.get_paginated_response(ItemSerializer(items, many=True, context=context).data)


class KnownAnswerSerializer(RequestSerializer):
    """An item's purpose and, except for ordinary work, its known answer."""

    purpose = serializers.ChoiceField(["gold", "training", "work"], help_text="`training`: shown to newcomers first.")
    answer = serializers.CharField(
        max_length=20,
        default="",
        allow_blank=True,
        help_text="For a pair: `1` if a is better, `0` if neither, `-1` if b. For steps: the number of the first wrong one, or `none`. For a rating: as on its page.",
    )
    because = serializers.CharField(
        max_length=2000, default="", allow_blank=True, help_text="The reason for the answer, shown to newcomers."
    )


class KnownView(OfQueue):
    """POST /api/v1/queues/<id>/items/<id>/known"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="queue_items_make_known",
        summary="Give an item that nobody has seen a known answer, or remove it",
        request=KnownAnswerSerializer,
        responses={
            200: ItemSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="Somebody has seen it, or an experiment fixed its items."),
        },
    )
    def post(self, request: Request, queue_id: UUID, item_id: int) -> Response:
        queue = self.queue(queue_id)
        item = get_object_or_404(Item.objects.select_related("task", "a"), queue=queue, pk=item_id)
        serializer = KnownAnswerSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fields = serializer.validated_data
        form = KnownForm({**fields, "answer_given": fields["answer"]}, queue=queue)
        if not form.is_valid():
            problems = {
                "answer" if name == "answer_given" else name: messages for name, messages in form.errors.items()
            }
            raise ValidationError({name: list(map(str, messages)) for name, messages in problems.items()})
        purpose = Item.Purpose(fields["purpose"])
        try:
            if purpose == Item.Purpose.WORK:
                known_answers.make_work(item=item, by=self.member.user)
            else:
                known_answers.make_known(
                    item=item, purpose=purpose, answer=form.answer(), because=fields["because"], by=self.member.user
                )
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        item.refresh_from_db()
        context: dict[str, Any] = {"assignees": assignees_of([item]), "on_my_desk": set()}
        return Response(ItemSerializer(item, context=context).data)


GoldSerializer = request_of(DrawGoldForm, "NewGold", "How many items become gold.")


class GoldView(OfQueue):
    """POST /api/v1/queues/<id>/gold"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="queue_gold_draw",
        summary="Make unseen items gold whose answer follows from their trajectories' outcomes",
        request=GoldSerializer,
        responses={
            200: QueueSettingsSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(
                description="No item's answer is known from its outcome, or an experiment fixed the items."
            ),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue, serializer = self.queue(queue_id), GoldSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fields = cleaned(DrawGoldForm(serializer.validated_data))
        try:
            known_answers.draw_gold(queue=queue, count=fields["count"], by=self.member.user)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        queue.refresh_from_db()
        return Response(QueueSettingsSerializer(queue).data)
