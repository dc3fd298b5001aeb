"""Destinations of a workspace's events, and the deliveries to each."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Index, Q, UniqueConstraint
from django.db.models.functions import Now
from django.utils.timezone import now

from apps.accounts.models import Membership, Role, User, WorkspaceModel, WorkspaceQuerySet
from apps.common.ids import new_id

GIVEN_UP_AFTER = timedelta(days=3)
"""Time from a delivery's creation to its last attempt; also how long a destination may fail before it's turned off."""


class DestinationQuerySet(WorkspaceQuerySet["Destination"]):
    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """Excludes removed destinations, which are kept until their last delivery is deleted."""
        return super().visible_to(member, at_least=at_least).filter(removed_at=None)

    def on(self) -> Self:
        return self.filter(is_on=True, removed_at=None)

    def idle(self) -> Self:
        """Destinations that nobody is sending to and that aren't pausing after a failure."""
        return self.on().filter(
            Q(leased_until=None) | Q(leased_until__lt=now()), Q(quiet_until=None) | Q(quiet_until__lte=now())
        )


class Destination(WorkspaceModel):
    """A subscriber to some events."""

    class Kind(models.TextChoices):
        WEBHOOK = "webhook", "Webhook"
        EMAIL = "email", "E-mail"
        SLACK = "slack", "Slack"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=500, help_text="A URL or an e-mail address. A Slack URL is a secret.")
    events = ArrayField(models.CharField(max_length=40), help_text="Event types.")
    is_on = models.BooleanField(default=True)
    off_reason = models.TextField(blank=True, help_text="Why Retrace turned it off.")
    salt = models.CharField(
        max_length=64, help_text="Combined with SECRET_KEY to derive the signing secret, which isn't stored."
    )
    earlier_salt = models.CharField(max_length=64, blank=True, help_text="Salt of the replaced signing secret.")
    earlier_until = models.DateTimeField(
        null=True, help_text="Until when deliveries are also signed with the replaced secret."
    )
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="+", help_text="Who last turned the destination on."
    )
    failures = models.PositiveIntegerField(default=0, help_text="Consecutive failed attempts.")
    failing_since = models.DateTimeField(null=True)
    quiet_until = models.DateTimeField(null=True, help_text="Until when nothing is sent after a failure.")
    leased_until = models.DateTimeField(null=True, help_text="Until when a worker holds the destination.")
    removed_at = models.DateTimeField(null=True)

    objects = DestinationQuerySet.as_manager()

    class Meta:
        indexes = [
            Index(fields=["workspace", "-id"], condition=Q(removed_at=None), name="destination_newest"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def shown_address(self) -> str:
        """Hides the secret part of Slack URLs, since whoever knows the URL can post there."""
        if self.kind != self.Kind.SLACK:
            return self.address
        return f"{self.address.split('/')[2]}/…{self.address[-4:]}"

    @property
    def signs(self) -> bool:
        """Whether deliveries are signed."""
        return self.kind == self.Kind.WEBHOOK

    @property
    def earlier_signs(self) -> bool:
        """Whether the replaced secret still signs."""
        return self.earlier_until is not None and self.earlier_until > now()


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def visible_to(self, member: Membership) -> Self:
        return self.filter(destination__in=Destination.objects.visible_to(member))

    def waiting(self) -> Self:
        return self.filter(state=Delivery.State.WAITING)

    def due(self) -> Self:
        return self.waiting().filter(next_at__lte=now())


class Delivery(models.Model):
    """One event for one destination."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        DELIVERED = "delivered", "Delivered"
        GIVEN_UP = "given_up", "Given up"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    destination = models.ForeignKey(Destination, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    event_id = models.UUIDField(help_text="The same for all destinations and all attempts.")
    type = models.CharField(max_length=40)
    title = models.CharField(max_length=300, help_text="What happened, as text.")
    page = models.CharField(max_length=300, blank=True, help_text="Path of the page about it.")
    body = models.TextField(help_text="JSON body, byte for byte as sent to a webhook.")
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    status = models.PositiveSmallIntegerField(null=True, help_text="HTTP status of the latest response, if any.")
    problem = models.CharField(max_length=300, blank=True, help_text="Why the latest attempt failed.")
    created_at = models.DateTimeField(db_default=Now())
    next_at = models.DateTimeField(help_text="Time of the next attempt.")
    last_at = models.DateTimeField(null=True, help_text="Time of the latest attempt.")
    give_up_at = models.DateTimeField()

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["destination", "event_id"], name="one_delivery_per_destination"),
        ]
        indexes = [
            Index(fields=["destination", "-id"], name="delivery_newest"),
            Index(fields=["destination", "next_at"], condition=Q(state="waiting"), name="delivery_due"),
            Index(fields=["created_at"], name="delivery_oldest"),
        ]

    @property
    def message_id(self) -> str:
        """Identifies the delivery to its receiver across attempts."""
        return f"msg_{self.event_id.hex}"
