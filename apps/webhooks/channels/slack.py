"""Slack's incoming webhooks, and compatible services: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from apps.webhooks.channels.channel import Channel, Send, line_of
from apps.webhooks.channels.http_post import client_of_webhooks, post
from apps.webhooks.models import Delivery, Destination


@contextmanager
def _open(destination: Destination) -> Iterator[Send]:
    with client_of_webhooks() as client:
        yield lambda deliveries: post(client, destination.address, message_of(deliveries), {})


def message_of(deliveries: Sequence[Delivery]) -> str:
    """One line per delivery, with text by people or models escaped so that it can't contain links, mentions, or formatting."""
    lines = "\n".join(escaped(line_of(delivery)) for delivery in deliveries)
    return json.dumps({"text": lines, "mrkdwn": False, "unfurl_links": False})


def escaped(text: str) -> str:
    """Slack interprets `<!channel>` and `<https://…|words>`; escaping its three control characters prevents both."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


CHANNEL = Channel(_open, max_batch=20, pause_seconds=10)
