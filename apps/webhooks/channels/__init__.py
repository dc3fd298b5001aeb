"""Transports, one per kind of destination."""

from apps.webhooks.channels import email, slack, webhook
from apps.webhooks.channels.channel import Channel
from apps.webhooks.models import Destination

CHANNELS: dict[str, Channel] = {
    Destination.Kind.WEBHOOK: webhook.CHANNEL,
    Destination.Kind.EMAIL: email.CHANNEL,
    Destination.Kind.SLACK: slack.CHANNEL,
}
