"""REST for a queue's settings."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, User
from apps.annotation.api.of_queue import OfQueue
from apps.annotation.api.queues import QuestionsValue
from apps.annotation.desk.layouts import settings_of
from apps.annotation.forms.settings import SettingsForm
from apps.annotation.kinds import kind_of
from apps.annotation.models import Queue
from apps.annotation.models.queues import MAX_OVERLAP
from apps.annotation.queues.settings import change_settings
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, RequestSerializer, cleaned
from apps.common.names import refuse_invisible
from contract.quoting import legible

MAX_LABELERS = 1000


class QueueSettingsSerializer(serializers.ModelSerializer[Queue]):
    """The settings that may change while people work."""

    lease_minutes = serializers.SerializerMethodField()
    labelers = serializers.SerializerMethodField()
    questions = serializers.SerializerMethodField()

    class Meta:
        model = Queue
        fields = [
            *("id", "name", "overlap", "labelers", "gold_percent", "gold_count", "training_count", "ends_at"),
            *("ends_after", "lease_minutes", "skipped_come_back", "shows_machines", "blind_review", "layout"),
            "questions",
        ]
        read_only_fields = fields

    def get_lease_minutes(self, queue: Queue) -> int:
        """How long an item stays assigned to somebody who doesn't answer."""
        return max(1, queue.lease_seconds // 60)

    def get_labelers(self, queue: Queue) -> list[str] | None:
        """Email addresses of those who may label; null: everybody."""
        return sorted(user.email for user in queue.labelers.all()) if queue.is_restricted else None

    def get_questions(self, queue: Queue) -> list[dict[str, Any]]:
        """The questions asked beyond the main one."""
        return [question.to_json() for question in kind_of(queue).asked(queue).questions]


class ChangeQueueSerializer(RequestSerializer):
    """The settings to change; omitted ones stay the same."""

    name = serializers.CharField(validators=[refuse_invisible], max_length=200, required=False)
    overlap = serializers.IntegerField(
        min_value=1,
        max_value=MAX_OVERLAP,
        required=False,
        help_text="Different annotators for each item. It can only grow.",
    )
    labelers = serializers.ListField(
        child=serializers.EmailField(),
        max_length=MAX_LABELERS,
        required=False,
        allow_null=True,
        help_text="E-mail addresses of the members who may label; null: everybody.",
    )
    gold_percent = serializers.IntegerField(min_value=0, max_value=90, required=False)
    ends_at = serializers.DateTimeField(required=False, allow_null=True)
    ends_after = serializers.IntegerField(min_value=1, max_value=10**9, required=False, allow_null=True)
    lease_minutes = serializers.IntegerField(min_value=1, max_value=7 * 24 * 60, required=False)
    skipped_come_back = serializers.BooleanField(required=False)
    shows_machines = serializers.BooleanField(required=False, help_text="Only for queues that models can judge.")
    blind_review = serializers.BooleanField(required=False)
    questions = QuestionsValue(
        required=False, help_text="All of them. One that has answers keeps its text, type, points and options."
    )
    layout = serializers.DictField(
        child=serializers.CharField(max_length=20),
        required=False,
        help_text="The default desk layout; omitted settings stay the same.",
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
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="Existing answers, or the plan of an experiment, don't allow it."),
        },
    )
    def post(self, request: Request, queue_id: UUID) -> Response:
        self.queue(queue_id)
        serializer = ChangeQueueSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        with transaction.atomic():  # of two concurrent changes, the second starts from the result of the first
            rows = Queue.objects.visible_to(self.member).select_for_update(of=("self",), no_key=True)
            queue = get_object_or_404(rows, pk=queue_id)
            form = SettingsForm(_as_sent_by_the_page(queue, serializer.validated_data), queue=queue)
            cleaned(form)
            try:
                changed = change_settings(queue=queue, settings=form.settings(), by=self.member.user)
            except Refusal as refusal:
                raise Conflict(str(refusal)) from None
        return Response(QueueSettingsSerializer(changed).data)


def _as_sent_by_the_page(queue: Queue, changes: dict[str, Any]) -> dict[str, Any]:
    """The page's form with the current values and these changes. Raises ValidationError."""
    if changes.get("shows_machines") and not kind_of(queue).takes_models:
        raise ValidationError({"shows_machines": ["Models can't judge a queue of this kind."]})
    layout = changes.pop("layout", {})
    setting_names = [setting.name for setting in settings_of(queue.kind)]
    if unknown := sorted(set(layout) - set(setting_names)):
        problem = f"“{legible(unknown[0], 60)}” isn't a setting of this desk; known: {', '.join(setting_names)}."
        raise ValidationError({"layout": [problem]})
    form_data = {**SettingsForm(queue=queue).initial, "questions": None}
    if "labelers" in changes:
        labeler_emails = changes.pop("labelers")
        form_data |= (
            {"who": "all"} if labeler_emails is None else {"who": "named", "labelers": _members(queue, labeler_emails)}
        )
    return {**form_data, **changes, **{f"layout-{name}": value for name, value in layout.items()}}


def _members(queue: Queue, addresses: list[str]) -> list[int]:
    people = User.objects.filter(memberships__workspace=queue.workspace_id)
    user_ids = {email.lower(): pk for email, pk in people.values_list("email", "pk")}
    emails = list(dict.fromkeys(address.lower() for address in addresses))
    if missing := [address for address in emails if address not in user_ids]:
        raise ValidationError({"labelers": [f"Nobody in this workspace has the address {missing[0]}."]})
    return [user_ids[address] for address in emails]
