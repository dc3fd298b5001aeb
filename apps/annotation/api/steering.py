"""Steering a queue that is at work over REST: its settings, guidelines, state, and the known answers of its items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, User
from apps.annotation.api.of_queue import OfQueue, QueueSerializer
from apps.annotation.api.queues import QuestionsValue
from apps.annotation.api.reviews import InOrder
from apps.annotation.desk.layouts import settings_of
from apps.annotation.forms.settings import DrawGoldForm, KnownForm, SettingsForm
from apps.annotation.kinds import kind_of
from apps.annotation.models import Guideline, Item, Queue
from apps.annotation.models.items import on_desk_of
from apps.annotation.models.queues import MOST_OVERLAP
from apps.annotation.queries import assignees_of
from apps.annotation.queues import known_answers, queue_lifecycle
from apps.annotation.queues.settings import change_settings
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, ListView, RequestSerializer, cleaned
from apps.common.api_forms import request_of
from apps.common.pages import ShortPages
from contract.quoting import legible

MOST_LABELLERS = 1000


class QueueSettingsSerializer(serializers.ModelSerializer[Queue]):
    """What may change while people work."""

    lease_minutes = serializers.SerializerMethodField()
    labellers = serializers.SerializerMethodField()
    questions = serializers.SerializerMethodField()

    class Meta:
        model = Queue
        fields = [
            *("id", "name", "overlap", "labellers", "gold_percent", "gold_count", "training_count", "ends_at"),
            *("ends_after", "lease_minutes", "skipped_come_back", "shows_machines", "blind_review", "layout"),
            "questions",
        ]
        read_only_fields = fields

    def get_lease_minutes(self, queue: Queue) -> int:
        """How long an item stays with somebody who doesn't answer."""
        return max(1, queue.lease_seconds // 60)

    def get_labellers(self, queue: Queue) -> list[str] | None:
        """E-mail addresses of those who may label; null: everybody."""
        return sorted(user.email for user in queue.labellers.all()) if queue.is_restricted else None

    def get_questions(self, queue: Queue) -> list[dict[str, Any]]:
        """What is asked beside the main thing."""
        return [each.to_json() for each in kind_of(queue).asked(queue).questions]


class ChangeQueueSerializer(RequestSerializer):
    """What to change; what is left out stays."""

    name = serializers.CharField(max_length=200, required=False)
    overlap = serializers.IntegerField(
        min_value=1, max_value=MOST_OVERLAP, required=False, help_text="It can only grow."
    )
    labellers = serializers.ListField(
        child=serializers.EmailField(),
        max_length=MOST_LABELLERS,
        required=False,
        allow_null=True,
        help_text="E-mail addresses of the members who may label; null: everybody.",
    )
    gold_percent = serializers.IntegerField(min_value=0, max_value=90, required=False)
    ends_at = serializers.DateTimeField(required=False, allow_null=True)
    ends_after = serializers.IntegerField(min_value=1, max_value=10**9, required=False, allow_null=True)
    lease_minutes = serializers.IntegerField(min_value=1, max_value=7 * 24 * 60, required=False)
    skipped_come_back = serializers.BooleanField(required=False)
    shows_machines = serializers.BooleanField(required=False, help_text="Of queues that models can judge.")
    blind_review = serializers.BooleanField(required=False)
    questions = QuestionsValue(
        required=False, help_text="All of them. One that has answers keeps its text, type, points and options."
    )
    layout = serializers.DictField(
        child=serializers.CharField(max_length=20),
        required=False,
        help_text="How the desk is arranged for who didn't choose otherwise; settings that are left out stay.",
    )


class QueueSettingsView(OfQueue):
    """GET, POST /api/v1/queues/<id>/settings"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="queue_settings_read", summary="Read a queue's settings", responses=QueueSettingsSerializer
    )
    def get(self, request: Request, queue_id: UUID) -> Response:
        return Response(QueueSettingsSerializer(self.queue(queue_id)).data)

    @extend_schema(
        operation_id="queue_settings_change",
        summary="Change a queue's settings",
        request=ChangeQueueSerializer,
        responses={
            200: QueueSettingsSerializer,
            400: OpenApiResponse(description="Refused, by field."),
            409: OpenApiResponse(description="What was answered, or the plan of an experiment, doesn't allow it."),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        self.queue(queue_id)
        given = ChangeQueueSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        with transaction.atomic():  # of two changes at once, the second begins from what the first left
            rows = Queue.objects.visible_to(self.member).select_for_update(of=("self",), no_key=True)
            queue = get_object_or_404(rows, pk=queue_id)
            form = SettingsForm(_as_sent_by_the_page(queue, given.validated_data), queue=queue)
            cleaned(form)
            try:
                changed = change_settings(queue=queue, settings=form.settings(), by=self.member.user)
            except Refusal as refusal:
                raise Conflict(str(refusal)) from None
        return Response(QueueSettingsSerializer(changed).data)


def _as_sent_by_the_page(queue: Queue, changes: dict[str, Any]) -> dict[str, Any]:
    """The page's form as it stands, with these changes. Raises ValidationError."""
    if changes.get("shows_machines") and not kind_of(queue).takes_models:
        raise ValidationError({"shows_machines": ["Models can't judge a queue of this kind."]})
    layout = changes.pop("layout", {})
    known = [setting.name for setting in settings_of(queue.kind)]
    if unknown := sorted(set(layout) - set(known)):
        problem = f"“{legible(unknown[0], 60)}” is no setting of this desk; known are {', '.join(known)}."
        raise ValidationError({"layout": [problem]})
    sent = {**SettingsForm(queue=queue).initial, "questions": None}
    if "labellers" in changes:
        named = changes.pop("labellers")
        sent |= {"who": "all"} if named is None else {"who": "named", "labellers": _members(queue, named)}
    return {**sent, **changes, **{f"layout-{name}": value for name, value in layout.items()}}


def _members(queue: Queue, addresses: list[str]) -> list[int]:
    people = User.objects.filter(memberships__workspace=queue.workspace_id)
    known = {email.lower(): pk for email, pk in people.values_list("email", "pk")}
    wanted = list(dict.fromkeys(address.lower() for address in addresses))
    if missing := [address for address in wanted if address not in known]:
        raise ValidationError({"labellers": [f"Nobody in this workspace has the address {missing[0]}."]})
    return [known[address] for address in wanted]


class _SteerView(OfQueue):
    """What a button on the queue's page does."""

    needs = Role.RESEARCHER
    act: ClassVar[Callable[..., None]]

    def steer(self, queue_id: UUID) -> Response:
        queue = self.queue(queue_id)
        try:
            type(self).act(queue=queue, by=self.member.user)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(QueueSerializer(queue, context={"member": self.member}).data)


NOT_NOW = OpenApiResponse(description="The queue is in another state.")


class PauseQueueView(_SteerView):
    """POST /api/v1/queues/<id>/pause"""

    act = queue_lifecycle.pause_queue

    @extend_schema(
        operation_id="queues_pause",
        summary="Give nothing new out for a while",
        request=None,
        responses={200: QueueSerializer, 409: NOT_NOW},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        return self.steer(queue_id)


class ResumeQueueView(_SteerView):
    """POST /api/v1/queues/<id>/resume"""

    act = queue_lifecycle.resume_queue

    @extend_schema(
        operation_id="queues_resume",
        summary="Give work out again, also after closing",
        request=None,
        responses={200: QueueSerializer, 409: NOT_NOW},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        return self.steer(queue_id)


class CloseQueueView(_SteerView):
    """POST /api/v1/queues/<id>/close"""

    act = queue_lifecycle.close_queue

    @extend_schema(
        operation_id="queues_close",
        summary="End a queue; its judgments stay",
        request=None,
        responses={200: QueueSerializer, 409: NOT_NOW},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        return self.steer(queue_id)


class GuidelineSerializer(serializers.ModelSerializer[Guideline]):
    """One version of a queue's guidelines."""

    class Meta:
        model = Guideline
        fields = ["version", "text", "created_at"]
        read_only_fields = fields


class ReviseGuidelinesSerializer(RequestSerializer):
    """The next version."""

    text = serializers.CharField(max_length=100_000, trim_whitespace=False, help_text="Markdown.")


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
        request=ReviseGuidelinesSerializer,
        responses={201: GuidelineSerializer, 400: OpenApiResponse(description="Refused, by field.")},
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue, given = self.queue(queue_id), ReviseGuidelinesSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        made = queue_lifecycle.revise_guidelines(queue=queue, text=given.validated_data["text"], by=self.member.user)
        made.refresh_from_db()
        return Response(GuidelineSerializer(made).data, status=status.HTTP_201_CREATED)


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
        """Whether judgments contradict each other; null of what you have yet to judge yourself."""
        return None if item.pk in self.context["on_my_desk"] else item.disputed

    def get_assignees(self, item: Item) -> list[str]:
        """Names of those whom it's for; none where it's for everybody."""
        found: dict[int, list[str]] = self.context["assignees"]
        return found.get(item.pk, [])


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
        found = pages.paginate_queryset(rows, request, self) or []
        on_my_desk = set(on_desk_of(self.member).filter(queue=queue))
        context = {"assignees": assignees_of(found), "on_my_desk": on_my_desk}
        return pages.get_paginated_response(ItemSerializer(found, many=True, context=context).data)


class MakeKnownSerializer(RequestSerializer):
    """What an item is for and, unless that's ordinary work, its answer."""

    purpose = serializers.ChoiceField(["gold", "training", "work"], help_text="`training`: shown to newcomers first.")
    answer = serializers.CharField(
        max_length=20,
        default="",
        allow_blank=True,
        help_text="Of a pair `1` a is better, `0` neither, `-1` b; of steps the first wrong one's number or `none`; of a rating as its page has it.",
    )
    because = serializers.CharField(max_length=2000, default="", allow_blank=True, help_text="Shown to newcomers.")


class KnownView(OfQueue):
    """POST /api/v1/queues/<id>/items/<id>/known"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="queue_items_make_known",
        summary="Give an item that nobody has seen a known answer, or take it away",
        request=MakeKnownSerializer,
        responses={
            200: ItemSerializer,
            400: OpenApiResponse(description="Refused, by field."),
            409: OpenApiResponse(description="Somebody has seen it, or an experiment fixed its items."),
        },
    )
    def post(self, request: Request, queue_id: UUID, item_id: int) -> Response:
        queue = self.queue(queue_id)
        item = get_object_or_404(Item.objects.select_related("task", "a"), queue=queue, pk=item_id)
        given = MakeKnownSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        form = KnownForm({**asked, "answer_given": asked["answer"]}, queue=queue)
        if not form.is_valid():
            problems = {"answer" if name == "answer_given" else name: words for name, words in form.errors.items()}
            raise ValidationError({name: list(map(str, words)) for name, words in problems.items()})
        purpose = Item.Purpose(asked["purpose"])
        try:
            if purpose == Item.Purpose.WORK:
                known_answers.make_work(item=item, by=self.member.user)
            else:
                known_answers.make_known(
                    item=item, purpose=purpose, answer=form.answer(), because=asked["because"], by=self.member.user
                )
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        item.refresh_from_db()
        context: dict[str, Any] = {"assignees": assignees_of([item]), "on_my_desk": set()}
        return Response(ItemSerializer(item, context=context).data)


GoldSerializer = request_of(DrawGoldForm, "DrawGold")


class GoldView(OfQueue):
    """POST /api/v1/queues/<id>/gold"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="queue_gold_draw",
        summary="Make unseen items gold whose answer follows from how their trajectories ended",
        request=GoldSerializer,
        responses={
            200: QueueSettingsSerializer,
            400: OpenApiResponse(description="Refused, by field."),
            409: OpenApiResponse(description="No item tells its answer, or an experiment fixed its items."),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        queue, given = self.queue(queue_id), GoldSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        asked = cleaned(DrawGoldForm(given.validated_data))
        try:
            known_answers.draw_gold(queue=queue, count=asked["count"], by=self.member.user)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        queue.refresh_from_db()
        return Response(QueueSettingsSerializer(queue).data)
