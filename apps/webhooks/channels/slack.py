"""Slack's incoming webhooks, and whatever takes what they take: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks."""

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
    """A line for each, in which nothing that people or models wrote is a link, a mention, or formatting of Slack's."""
    lines = "\n".join(escaped(line_of(each)) for each in deliveries)
    return json.dumps({"text": lines, "mrkdwn": False, "unfurl_links": False})


def escaped(text: str) -> str:
    """Slack reads `<!channel>` and `<https://…|words>`; with its three characters escaped, it reads neither."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


CHANNEL = Channel(_open, most_at_once=20, pause_seconds=10)
