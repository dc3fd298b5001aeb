"""Announces an event: creates a delivery for each subscribed destination, in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.utils.timezone import now

from apps.common.broker import enqueue_seldom
from apps.common.ids import new_id
from apps.webhooks.events import TEST, EventType
from apps.webhooks.models import GIVEN_UP_AFTER, Delivery, Destination
from contract.quoting import legible

TASK = "webhooks.deliver"
MAX_WAITING = 10_000
"""Maximum number of pending deliveries per destination. Events beyond that aren't delivered to it."""
SEND_SECONDS = 5
"""Workers are told of new deliveries for a destination twice in this time at most: there may be hundreds a second, and who sends takes all that are due."""
MAX_NAME_LENGTH = 200
"""Maximum length of a thing's name, which people and models write."""


def announce(event: EventType, *, workspace_id: UUID, name: str, page: str, **data: Any) -> None:
    """Notify the destinations of a workspace of an event on the thing called `name`, whose page is at the path `page`.

    Call it in the transaction of the change. `data`: a few JSON values, such as ids; never a thing's content, which
    receivers read over REST with permissions of their own.
    """
    subscribed = Destination.objects.on().filter(workspace=workspace_id, events__contains=[event.value])
    destinations = [destination for destination in subscribed if not _is_full(destination)]
    if destinations:
        name = legible(name, MAX_NAME_LENGTH)
        _create_deliveries(
            destinations, event.value, f"{event.label}: {name}", page, {"name": name, "page": page, **data}
        )


def announce_test(destination: Destination) -> Delivery:
    """Create a delivery that declares itself a test."""
    [delivery] = _create_deliveries(
        [destination], TEST, f"Test of {destination.name}", "", {"name": destination.name, "page": ""}
    )
    return delivery


def _is_full(destination: Destination) -> bool:
    return destination.deliveries.waiting()[MAX_WAITING - 1 : MAX_WAITING].exists()


def _create_deliveries(
    destinations: Iterable[Destination], type: str, title: str, page: str, details: dict[str, Any]
) -> list[Delivery]:
    event_id, at = new_id(), now()
    deliveries = []
    for destination in destinations:
        data = {"workspace": str(destination.workspace_id), **details}
        body = json.dumps({"type": type, "timestamp": at.isoformat(timespec="milliseconds"), "data": data})
        deliveries.append(
            Delivery(
                destination=destination,
                event_id=event_id,
                type=type,
                title=title,
                page=page,
                body=body,
                next_at=at,
                give_up_at=at + GIVEN_UP_AFTER,
            )
        )
        enqueue_seldom(TASK, str(destination.pk), seconds=SEND_SECONDS)
    return Delivery.objects.bulk_create(deliveries)
