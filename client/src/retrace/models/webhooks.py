"""Webhooks of a workspace, and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Webhook(Answer):
    """A destination of events: a server, an e-mail address, or a Slack channel."""

    id: str
    kind: str
    name: str
    address: str  # For Slack, only the host and the end.
    events: list[str]
    is_on: bool
    off_reason: str  # Why Retrace turned it off.
    failures: int  # Consecutive failed attempts.
    earlier_until: datetime | None  # Until when the previous secret also signs.
    created_at: datetime


class SignedWebhook(Webhook):
    """A webhook with its signing secret, which is shown only once."""

    secret: str  # whsec_…; empty if messages aren't signed.


class Delivery(Answer):
    """One event for one webhook."""

    id: str
    webhook: str
    message_id: str  # The header webhook-id.
    type: str
    title: str  # Description of the event.
    body: str  # JSON, byte for byte as signed.
    state: str  # waiting, delivered, given_up.
    attempts: int
    status: int | None  # Of the latest response, if there was one.
    problem: str  # Why the latest attempt failed.
    created_at: datetime
    last_at: datetime | None  # Time of the last attempt.
    next_at: datetime  # Time of the next attempt.


class NewWebhook(TypedDict, total=False):
    """A destination and its events."""

    kind: Literal["webhook", "email", "slack"]
    name: Required[str]
    address: Required[str]  # A URL, or a member's e-mail address.
    events: Required[Sequence[str]]


class WebhookChange(TypedDict, total=False):
    """Changes; fields left out stay as they are."""

    name: str
    events: Sequence[str]
    is_on: bool  # Whoever turns a webhook on is responsible for what is sent to it.
