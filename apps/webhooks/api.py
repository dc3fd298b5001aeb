"""REST for webhooks: destinations and their deliveries."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.common.names import refuse_invisible
from apps.webhooks import destinations
from apps.webhooks.events import EventType
from apps.webhooks.models import Delivery, Destination


class WebhookSerializer(serializers.ModelSerializer[Destination]):
    """A destination of events: a server, an email address, or a Slack channel."""

    address = serializers.CharField(
        source="shown_address", read_only=True, help_text="The address; for Slack, only its host and its end."
    )
    events = serializers.ListField(child=serializers.CharField(), read_only=True)
    failures = serializers.IntegerField(read_only=True, help_text="Attempts that failed in a row.")

    class Meta:
        model = Destination
        fields = [
            "id",
            "kind",
            "name",
            "address",
            "events",
            "is_on",
            "off_reason",
            "failures",
            "earlier_until",
            "created_at",
        ]
        read_only_fields = fields


class WebhookWithSecretSerializer(WebhookSerializer):
    """A webhook with its signing secret, which is shown only once."""

    secret = serializers.CharField(help_text="The signing secret, `whsec_…`; empty if messages aren't signed.")

    class Meta(WebhookSerializer.Meta):
        fields = [*WebhookSerializer.Meta.fields, "secret"]
        read_only_fields = fields


class NewWebhookSerializer(RequestSerializer):
    """A destination, and the events to send there."""

    kind = serializers.ChoiceField(choices=Destination.Kind.choices, default=Destination.Kind.WEBHOOK)
    name = serializers.CharField(validators=[refuse_invisible], max_length=100)
    address = serializers.CharField(max_length=500, help_text="A URL, or a member's e-mail address.")
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=EventType.choices), max_length=len(EventType), min_length=1
    )


class ChangeWebhookSerializer(RequestSerializer):
    """The changes; omitted fields stay the same."""

    name = serializers.CharField(validators=[refuse_invisible], max_length=100, required=False)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=EventType.choices),
        max_length=len(EventType),
        min_length=1,
        required=False,
    )
    is_on = serializers.BooleanField(
        required=False, help_text="Whoever turns a webhook on becomes responsible for what it receives."
    )


class DeliverySerializer(serializers.ModelSerializer[Delivery]):
    """One event for one webhook."""

    webhook = serializers.UUIDField(source="destination_id", read_only=True)
    message_id = serializers.CharField(read_only=True, help_text="The message's id, sent as the header `webhook-id`.")
    type = serializers.CharField(read_only=True)

    class Meta:
        model = Delivery
        fields = [
            *("id", "webhook", "message_id", "type", "title", "body", "state", "attempts", "status", "problem"),
            *("created_at", "last_at", "next_at"),
        ]
        read_only_fields = fields


class WebhooksView(ListView):
    """The workspace's webhooks."""

    needs = Role.RESEARCHER
    permission_classes = [IsMember, RecentSignIn]
    keeps_answers = False  # the answer holds a secret, which isn't stored

    @extend_schema(
        operation_id="webhooks_list", summary="List webhooks, newest first", responses=WebhookSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Destination.objects.visible_to(self.member), WebhookSerializer)

    @extend_schema(
        operation_id="webhooks_create",
        summary="Send events to a server, an e-mail address, or Slack",
        description="Messages to servers are signed according to Standard Webhooks. The signing secret is shown only once.",
        request=NewWebhookSerializer,
        responses={201: WebhookWithSecretSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewWebhookSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            created = destinations.create_destination(
                workspace=self.member.workspace, by=self.member.user, **form.validated_data
            )
        except destinations.DestinationRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        return Response(_with_secret(created.destination, created.secret), status=status.HTTP_201_CREATED)


class _OneWebhookView(MemberView):
    needs = Role.RESEARCHER

    def find(self, webhook_id: UUID) -> Destination:
        rows = Destination.objects.visible_to(self.member).select_related("workspace")
        return get_object_or_404(rows, pk=webhook_id)


class WebhookView(_OneWebhookView):
    """One webhook."""

    @extend_schema(operation_id="webhooks_read", summary="Read the state of a webhook", responses=WebhookSerializer)
    def get(self, request: Request, webhook_id: UUID) -> Response:
        return Response(WebhookSerializer(self.find(webhook_id)).data)


class ChangeWebhookView(_OneWebhookView):
    """Change a webhook's name or events, or turn it on or off."""

    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="webhooks_change",
        summary="Change a webhook's name or events, or turn it on or off",
        request=ChangeWebhookSerializer,
        responses={200: WebhookSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        destination, form = self.find(webhook_id), ChangeWebhookSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        destinations.change_destination(destination=destination, by=self.member.user, **form.validated_data)
        destination.refresh_from_db()
        return Response(WebhookSerializer(destination).data)


class RotateWebhookView(_OneWebhookView):
    """Replace a webhook's secret."""

    permission_classes = [IsMember, RecentSignIn]
    keeps_answers = False  # the answer holds a secret, which isn't stored

    @extend_schema(
        operation_id="webhooks_rotate",
        summary="Create a new signing secret; the previous one also signs for a day",
        request=None,
        responses={200: WebhookWithSecretSerializer, 409: OpenApiResponse(description="Its messages aren't signed.")},
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        destination = self.find(webhook_id)
        try:
            secret = destinations.rotate_secret(destination=destination, by=self.member.user)
        except destinations.DestinationRefused as refusal:
            raise Conflict(str(refusal)) from None
        destination.refresh_from_db()
        return Response(_with_secret(destination, secret))


class TestWebhookView(_OneWebhookView):
    """Send a test event."""

    @extend_schema(
        operation_id="webhooks_test",
        summary="Deliver a test",
        request=None,
        responses={202: DeliverySerializer, 409: OpenApiResponse(description="It's turned off.")},
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        try:
            delivery = destinations.send_test(destination=self.find(webhook_id), by=self.member.user)
        except destinations.IsOff as refusal:
            raise Conflict(str(refusal)) from None
        delivery.refresh_from_db()
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_202_ACCEPTED)


class RemoveWebhookView(_OneWebhookView):
    """Remove a webhook."""

    @extend_schema(
        operation_id="webhooks_remove", summary="Remove a webhook", request=None, responses={200: WebhookSerializer}
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        destination = self.find(webhook_id)
        destinations.remove_destination(destination=destination, by=self.member.user)
        destination.refresh_from_db()
        return Response(WebhookSerializer(destination).data)


class DeliveriesView(ListView):
    """A webhook's deliveries, past and pending."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="webhook_deliveries_list",
        summary="List the deliveries of a webhook, newest first",
        responses=DeliverySerializer(many=True),
    )
    def get(self, request: Request, webhook_id: UUID) -> Response:
        destination = get_object_or_404(Destination.objects.visible_to(self.member), pk=webhook_id)
        rows: Any = destination.deliveries.all()
        return self.page_of(rows, DeliverySerializer)


class ResendView(MemberView):
    """Send a delivery again."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="webhook_deliveries_resend",
        summary="Send a delivery again, with the same id",
        request=None,
        responses={202: DeliverySerializer, 409: OpenApiResponse(description="It's waiting, or its webhook is off.")},
    )
    def post(self, request: Request, delivery_id: UUID) -> Response:
        deliveries = Delivery.objects.visible_to(self.member).select_related("destination")
        try:
            resent = destinations.resend(delivery=get_object_or_404(deliveries, pk=delivery_id), by=self.member.user)
        except (destinations.IsOff, destinations.NotFinished) as refusal:
            raise Conflict(str(refusal)) from None
        return Response(DeliverySerializer(resent).data, status=status.HTTP_202_ACCEPTED)


def _with_secret(destination: Destination, secret: str) -> dict[str, Any]:
    return {**WebhookSerializer(destination).data, "secret": secret}
