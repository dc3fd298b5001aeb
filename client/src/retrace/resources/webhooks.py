"""Where a workspace's events go: servers, Slack, and members by e-mail."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.core.request import Request, address
from retrace.models.webhooks import Delivery, NewWebhook, SignedWebhook, Webhook, WebhookChange


class Webhooks(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Webhook]:
        """All webhooks, newest first."""
        return Listing("/webhooks", Webhook, {"page_size": page_size})

    @operation
    def create(self, **webhook: Unpack[NewWebhook]) -> Flow[SignedWebhook]:
        """Send events to a server, to Slack, or to a member by e-mail. The signing secret is shown this once."""
        return self._create("/webhooks", answer=SignedWebhook, body=webhook, is_remembered=False)

    @operation
    def read(self, webhook_id: str) -> Flow[Webhook]:
        """Read how a webhook is doing."""
        return self._read("/webhooks/{}", webhook_id, answer=Webhook)

    @operation
    def change(self, webhook_id: str, **change: Unpack[WebhookChange]) -> Flow[Webhook]:
        """Change its name or events, or turn it on or off."""
        return self._create("/webhooks/{}/change", webhook_id, answer=Webhook, body=change)

    @operation
    def rotate(self, webhook_id: str) -> Flow[SignedWebhook]:
        """Make a new signing secret; the one before signs, too, for a day."""
        return self._ask(Request("POST", address("/webhooks/{}/rotate", webhook_id)), SignedWebhook)

    @operation
    def test(self, webhook_id: str) -> Flow[Delivery]:
        """Deliver a test."""
        return self._act("/webhooks/{}/test", webhook_id, answer=Delivery)

    @operation
    def remove(self, webhook_id: str) -> Flow[Webhook]:
        """Remove a webhook: nothing is sent to it any more."""
        return self._act("/webhooks/{}/remove", webhook_id, answer=Webhook)

    @listing
    def deliveries(self, webhook_id: str, *, page_size: int | None = None) -> Listing[Delivery]:
        """What was, or is to be, delivered to a webhook, newest first."""
        return Listing(address("/webhooks/{}/deliveries", webhook_id), Delivery, {"page_size": page_size})

    @operation
    def resend(self, delivery_id: str) -> Flow[Delivery]:
        """Send a delivery again, with the same id."""
        return self._act("/webhook-deliveries/{}/resend", delivery_id, answer=Delivery)
