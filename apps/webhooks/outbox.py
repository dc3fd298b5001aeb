"""Announces an event: creates a delivery for each subscribed destination, in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.utils.timezone import now

from apps.common.broker import enqueue
from apps.common.ids import new_id
from apps.webhooks.events import TEST, EventType
from apps.webhooks.models import GIVEN_UP_AFTER, Delivery, Destination
from contract.quoting import legible

TASK = "webhooks.deliver"
MOST_WAITING = 10_000
"""Maximum number of pending deliveries per destination. Events beyond that aren't delivered to it."""
LONGEST_NAME = 200
"""Maximum length of a thing's name, which people and models write."""


def announce(event: EventType, *, workspace_id: UUID, name: str, page: str, **facts: Any) -> None:
    """Notify the destinations of a workspace of an event on the thing called `name`, whose page is at the path `page`.

    Call it in the transaction of the change. `facts`: a few JSON values, such as ids; never a thing's content, which
    receivers read over REST with permissions of their own.
    """
    wanting = Destination.objects.on().filter(workspace=workspace_id, events__contains=[event.value])
    destinations = [each for each in wanting if not _is_full(each)]
    if destinations:
        name = legible(name, LONGEST_NAME)
        _deliver(destinations, event.value, f"{event.label}: {name}", page, {"name": name, "page": page, **facts})


def announce_test(destination: Destination) -> Delivery:
    """Create a delivery that declares itself a test."""
    [made] = _deliver([destination], TEST, f"Test of {destination.name}", "", {"name": destination.name, "page": ""})
    return made


def _is_full(destination: Destination) -> bool:
    return destination.deliveries.waiting()[MOST_WAITING - 1 : MOST_WAITING].exists()


def _deliver(
    destinations: Iterable[Destination], type: str, title: str, page: str, facts: dict[str, Any]
) -> list[Delivery]:
    event_id, moment = new_id(), now()
    made = []
    for destination in destinations:
        data = {"workspace": str(destination.workspace_id), **facts}
        body = json.dumps({"type": type, "timestamp": moment.isoformat(timespec="milliseconds"), "data": data})
        made.append(
            Delivery(
                destination=destination,
                event_id=event_id,
                type=type,
                title=title,
                page=page,
                body=body,
                next_at=moment,
                give_up_at=moment + GIVEN_UP_AFTER,
            )
        )
        enqueue(TASK, str(destination.pk))
    return Delivery.objects.bulk_create(made)
