"""REST for bulk actions, each of which can be undone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, User
from apps.annotation.api.of_queue import OfQueue
from apps.annotation.api.queues import refuse_unknown_filters
from apps.annotation.bulk.assignment import MAX_ITEMS, assign_items
from apps.annotation.bulk.labels import MAX_TRAJECTORIES, label_all
from apps.annotation.bulk.undo import undo_bulk_act
from apps.annotation.models import BulkAct
from apps.annotation.queues.sources import Selection
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.trajectories.filters import BadFilter


class BulkActSerializer(serializers.ModelSerializer[BulkAct]):
    """One action on many items: `words` describes it, `undone_at` is when it was undone."""

    by = serializers.CharField(source="by.name", default="", read_only=True)

    class Meta:
        model = BulkAct
        fields = ["id", "kind", "queue", "by", "words", "count", "created_at", "undone_at"]
        read_only_fields = fields


class NewBulkLabelSerializer(RequestSerializer):
    """One label for many trajectories: those listed in `trajectories` or, without any, all that match `filter`."""

    trajectories = serializers.ListField(
        child=serializers.UUIDField(), max_length=MAX_TRAJECTORIES, required=False, default=list
    )
    filter = serializers.CharField(
        max_length=2000,
        required=False,
        default="",
        allow_blank=True,
        validators=[refuse_unknown_filters],
        help_text="The query string of `GET /api/v1/trajectories`.",
    )
    thumb = serializers.ChoiceField(choices=[1, -1], help_text="1: good, -1: bad.")
    reason = serializers.CharField(max_length=5000, required=False, default="", allow_blank=True)
    count = serializers.IntegerField(
        min_value=1,
        max_value=MAX_TRAJECTORIES,
        help_text="How many you expect. If another number matches, nothing is labeled.",
    )


class ItemAssignmentSerializer(RequestSerializer):
    """Items of a queue, and the people they're assigned to."""

    items = serializers.ListField(child=serializers.IntegerField(min_value=1), min_length=1, max_length=MAX_ITEMS)
    people = serializers.ListField(
        child=serializers.EmailField(),
        max_length=100,
        help_text="E-mail addresses of members. If empty: everybody again.",
    )


class BulkActsView(ListView):
    """GET /api/v1/bulk-acts"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="bulk_acts_list",
        summary="List bulk actions, newest first",
        responses=BulkActSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(
            BulkAct.objects.visible_to(self.member).select_related("by").defer("before"), BulkActSerializer
        )


class BulkLabelsView(MemberView):
    """POST /api/v1/bulk-labels"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="bulk_labels_create",
        summary="Give many trajectories one label",
        request=NewBulkLabelSerializer,
        responses={
            201: BulkActSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="Another number of trajectories matches, or too many."),
        },
    )
    def post(self, request: Request) -> Response:
        serializer = NewBulkLabelSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data: dict[str, Any] = serializer.validated_data
        try:
            act = label_all(
                member=self.member,
                selection=Selection(ids=data["trajectories"], filter="" if data["trajectories"] else data["filter"]),
                thumb=data["thumb"],
                seen=data["count"],
                reason=data["reason"],
            )
        except BadFilter as problem:
            raise ValidationError({"filter": [str(problem)]}) from None
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(BulkActSerializer(act).data, status=status.HTTP_201_CREATED)


class AssignView(OfQueue):
    """POST /api/v1/queues/<id>/assign"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="queue_assign",
        summary="Assign items to named people, or to everybody again",
        request=ItemAssignmentSerializer,
        responses={
            201: BulkActSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="Fewer people than judge each item, or somebody who can't label here."),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue = self.queue(queue_id)
        serializer = ItemAssignmentSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        people = list(dict.fromkeys(map(self._person, serializer.validated_data["people"])))
        try:
            act = assign_items(queue=queue, items=serializer.validated_data["items"], people=people, by=self.member)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(BulkActSerializer(act).data, status=status.HTTP_201_CREATED)

    def _person(self, address: str) -> User:
        members = User.objects.filter(memberships__workspace=self.member.workspace_id)
        person = members.filter(email__lower=address.lower()).first()
        if person is None:
            raise ValidationError({"people": [f"Nobody in this workspace has the address {address}."]})
        return person


class UndoView(MemberView):
    """POST /api/v1/bulk-acts/<id>/undo"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="bulk_act_undo",
        summary="Undo a bulk action",
        request=None,
        responses={
            200: BulkActSerializer,
            409: OpenApiResponse(description="It was already undone, or a later assignment would be lost."),
        },
    )
    def post(self, request: Request, act_id: UUID) -> Response:
        act = get_object_or_404(BulkAct.objects.visible_to(self.member).select_related("by"), pk=act_id)
        try:
            undone = undo_bulk_act(act=act, by=self.member.user)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(BulkActSerializer(undone).data)
