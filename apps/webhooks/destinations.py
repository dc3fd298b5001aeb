"""Registering and changing destinations, and sending by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.db import transaction
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import Membership, User, Workspace
from apps.common.broker import enqueue
from apps.common.limits import Limit
from apps.webhooks.events import EventType
from apps.webhooks.models import GIVEN_UP_AFTER, Delivery, Destination
from apps.webhooks.outbox import TASK, announce_test
from apps.webhooks.secrets import new_salt, secret_of

MAX_DESTINATIONS = 20
"""Maximum number of destinations per workspace."""
MANUAL_SENDS = Limit("webhook-sends", tries=60, seconds=60 * 60)
"""Limit per person, since each send may occupy a worker until the timeout, and ends the pause after a failure."""
ROTATION_OVERLAP = timedelta(hours=24)


class DestinationRefused(Exception):
    """The destination is invalid: what was given, what to do. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class IsOff(Exception):
    """The destination is turned off, so nothing is sent."""

    def __init__(self) -> None:
        super().__init__("It's turned off. Turn it on first.")


class NotFinished(Exception):
    """Only deliveries that were delivered or given up can be sent again."""

    def __init__(self) -> None:
        super().__init__("This delivery is already waiting for its next attempt.")


class NewDestination(NamedTuple):
    """A destination with its signing secret, "" if it has none. Shown only once."""

    destination: Destination
    secret: str


@transaction.atomic
def create_destination(
    *, workspace: Workspace, kind: str, name: str, address: str, events: Sequence[str], by: User
) -> NewDestination:
    """Send these events to `address` from now on. Raises DestinationRefused."""
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)  # concurrent requests can't exceed the limit
    if Destination.objects.filter(workspace=workspace, removed_at=None).count() >= MAX_DESTINATIONS:
        raise DestinationRefused("name", f"A workspace has {MAX_DESTINATIONS} webhooks at most. Remove one first.")
    _check(workspace, kind, address)
    destination = Destination.objects.create(
        workspace=workspace,
        kind=kind,
        name=name,
        address=address,
        events=_validated_events(events),
        salt=new_salt(),
        created_by=by,
    )
    _record_audit(
        destination, by, "made webhook", kind=kind, address=destination.shown_address, events=destination.events
    )
    return NewDestination(destination, secret_of(destination.salt) if destination.signs else "")


@transaction.atomic
def change_destination(
    *,
    destination: Destination,
    by: User,
    name: str | None = None,
    events: Sequence[str] | None = None,
    is_on: bool | None = None,
) -> None:
    """Change the given values. Whoever turns a destination on becomes responsible for it. Raises DestinationRefused."""
    locked = Destination.objects.select_for_update(no_key=True).get(pk=destination.pk)
    if name is not None:
        locked.name = name
    if events is not None:
        locked.events = _validated_events(events)
    if is_on and not locked.is_on:
        locked.created_by, locked.off_reason = by, ""
        locked.failures, locked.failing_since, locked.quiet_until = 0, None, None
    if is_on is not None:
        locked.is_on = is_on
    locked.save()
    if is_on is False:
        locked.deliveries.waiting().update(state=Delivery.State.GIVEN_UP, problem="It was turned off.")
    _record_audit(locked, by, "changed webhook", events=locked.events, is_on=locked.is_on)


@transaction.atomic
def rotate_secret(*, destination: Destination, by: User) -> str:
    """Replace the signing secret. The previous one also signs for a day, so that receivers can switch. Raises DestinationRefused."""
    if not destination.signs:
        raise DestinationRefused("kind", f"{destination.get_kind_display()} messages aren't signed.")
    locked = Destination.objects.select_for_update(no_key=True).get(pk=destination.pk)
    locked.earlier_salt, locked.earlier_until = locked.salt, now() + ROTATION_OVERLAP
    locked.salt = new_salt()
    locked.save(update_fields=["salt", "earlier_salt", "earlier_until"])
    _record_audit(locked, by, "rotated secret of webhook")
    return secret_of(locked.salt)


@transaction.atomic
def remove_destination(*, destination: Destination, by: User) -> None:
    """Stop sending to it. Its row is kept as long as its deliveries, so that a concurrent announcement doesn't fail."""
    rows = Destination.objects.filter(pk=destination.pk, removed_at=None)
    if rows.update(removed_at=now(), is_on=False):
        destination.deliveries.waiting().update(state=Delivery.State.GIVEN_UP, problem="It was removed.")
        _record_audit(destination, by, "removed webhook")


@transaction.atomic
def send_test(*, destination: Destination, by: User) -> Delivery:
    """Deliver a test. Raises IsOff, TooManyTries."""
    if not destination.is_on:
        raise IsOff
    MANUAL_SENDS.count(str(by.pk))
    Destination.objects.filter(pk=destination.pk).update(quiet_until=None)
    return announce_test(destination)


@transaction.atomic
def resend(*, delivery: Delivery, by: User) -> Delivery:
    """Send a finished delivery again, with the same id. Raises IsOff, NotFinished, TooManyTries."""
    if not delivery.destination.is_on:
        raise IsOff
    MANUAL_SENDS.count(str(by.pk))
    start = now()
    finished = Delivery.objects.filter(pk=delivery.pk).exclude(state=Delivery.State.WAITING)
    if not finished.update(
        state=Delivery.State.WAITING,
        attempts=0,
        problem="",
        status=None,
        next_at=start,
        give_up_at=start + GIVEN_UP_AFTER,
    ):
        raise NotFinished
    Destination.objects.filter(pk=delivery.destination_id).update(quiet_until=None)
    enqueue(TASK, str(delivery.destination_id))
    delivery.refresh_from_db()
    return delivery


def _validated_events(events: Sequence[str]) -> list[str]:
    """The events in canonical order. Raises DestinationRefused."""
    if unknown := sorted(set(events) - set(EventType.values)):
        raise DestinationRefused("events", f"“{unknown[0][:60]}” isn't an event. Known: {', '.join(EventType.values)}.")
    ordered = [event for event in EventType.values if event in events]
    if not ordered:
        raise DestinationRefused("events", "Choose at least one event.")
    return ordered


def _check(workspace: Workspace, kind: str, address: str) -> None:
    """Refuse invalid addresses of this kind. The host is checked when a connection is made."""
    if kind == Destination.Kind.EMAIL:
        if not settings.EMAIL_HOST:
            raise DestinationRefused(
                "kind", "This installation has no mail server. Whoever operates it can name one in EMAIL_HOST."
            )
        members = Membership.objects.filter(workspace=workspace, user__is_active=True)
        if not members.filter(user__email__lower=address.lower()).exists():
            raise DestinationRefused("address", "Give the e-mail address of a member of this workspace.")
        return
    try:
        parts, _ = urlsplit(address), httpx.URL(address).host
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        is_valid = False
    if not is_valid or any(character.isspace() or not character.isprintable() for character in address):
        raise DestinationRefused("address", "Give a whole URL, such as https://example.org/hooks/retrace.")
    if parts.username or parts.password:
        raise DestinationRefused(
            "address", "Leave out the name and password before the host: the signature says who sends."
        )
    if kind == Destination.Kind.SLACK and parts.scheme != "https":
        raise DestinationRefused("address", "Slack's addresses begin with https://.")


def _record_audit(destination: Destination, by: User, action: str, **detail: object) -> None:
    audit.record(
        workspace=destination.workspace, actor=by, action=action, subject=destination.name, target=destination, **detail
    )
