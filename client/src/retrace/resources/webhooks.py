"""Webhooks of a workspace: servers, Slack, and members by e-mail."""

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
        """Send events to a server, to Slack, or to a member by e-mail. The signing secret is shown only once."""
        return self._create("/webhooks", answer=SignedWebhook, body=webhook, is_remembered=False)

    @operation
    def read(self, webhook_id: str) -> Flow[Webhook]:
        """Read the state of a webhook."""
        return self._read("/webhooks/{}", webhook_id, answer=Webhook)

    @operation
    def change(self, webhook_id: str, **change: Unpack[WebhookChange]) -> Flow[Webhook]:
        """Change its name or events, or turn it on or off."""
        return self._create("/webhooks/{}/change", webhook_id, answer=Webhook, body=change)

    @operation
    def rotate(self, webhook_id: str) -> Flow[SignedWebhook]:
        """Create a new signing secret; the previous one also signs for another day."""
        return self._ask(Request("POST", address("/webhooks/{}/rotate", webhook_id)), SignedWebhook)

    @operation
    def test(self, webhook_id: str) -> Flow[Delivery]:
        """Send a test delivery."""
        return self._act("/webhooks/{}/test", webhook_id, answer=Delivery)

    @operation
    def remove(self, webhook_id: str) -> Flow[Webhook]:
        """Remove a webhook: nothing is sent to it anymore."""
        return self._act("/webhooks/{}/remove", webhook_id, answer=Webhook)

    @listing
    def deliveries(self, webhook_id: str, *, page_size: int | None = None) -> Listing[Delivery]:
        """Past and pending deliveries of a webhook, newest first."""
        return Listing(address("/webhooks/{}/deliveries", webhook_id), Delivery, {"page_size": page_size})

    @operation
    def resend(self, delivery_id: str) -> Flow[Delivery]:
        """Send a delivery again, with the same id."""
        return self._act("/webhook-deliveries/{}/resend", delivery_id, answer=Delivery)
