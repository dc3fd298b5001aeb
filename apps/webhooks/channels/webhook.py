"""A server that accepts Standard Webhooks: https://www.standardwebhooks.com."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.utils.timezone import now

from apps.webhooks.channels.channel import Channel, Outcome, Send
from apps.webhooks.channels.http_post import client_of_webhooks, post
from apps.webhooks.models import Delivery, Destination
from apps.webhooks.secrets import signatures


@contextmanager
def _open(destination: Destination) -> Iterator[Send]:
    with client_of_webhooks() as client:

        def send(deliveries: Sequence[Delivery]) -> Outcome:
            [delivery] = deliveries
            at = now()
            headers = {
                "webhook-id": delivery.message_id,
                "webhook-timestamp": str(int(at.timestamp())),
                "webhook-signature": signatures(destination, delivery.message_id, at, delivery.body),
            }
            return post(client, destination.address, delivery.body, headers)

        yield send


CHANNEL = Channel(_open)
