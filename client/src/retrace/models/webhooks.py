"""Where a workspace's events go, and what was delivered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Webhook(Answer):
    """Where events go: a server, an e-mail address, or a Slack channel."""

    id: str
    kind: str
    name: str
    address: str  # Of Slack's only host and end.
    events: list[str]
    is_on: bool
    off_reason: str  # Why Retrace turned it off.
    failures: int  # Attempts that failed in a row.
    earlier_until: datetime | None  # Until when the replaced secret signs, too.
    created_at: datetime


class SignedWebhook(Webhook):
    """A webhook with its signing secret, which is shown this once."""

    secret: str  # whsec_…; empty where messages aren't signed.


class Delivery(Answer):
    """One event for one webhook."""

    id: str
    webhook: str
    message_id: str  # The header webhook-id.
    type: str
    title: str  # What happened, in words.
    body: str  # JSON, byte for byte as it was signed.
    state: str  # waiting, delivered, given_up.
    attempts: int
    status: int | None  # Of the latest answer, where there was one.
    problem: str  # Why the latest attempt failed.
    created_at: datetime
    last_at: datetime | None  # When it was tried last.
    next_at: datetime  # When it's tried next.


class NewWebhook(TypedDict, total=False):
    """Where to send which events."""

    kind: Literal["webhook", "email", "slack"]
    name: Required[str]
    address: Required[str]  # A URL, or a member's e-mail address.
    events: Required[Sequence[str]]


class WebhookChange(TypedDict, total=False):
    """What to change; what is left out stays."""

    name: str
    events: Sequence[str]
    is_on: bool  # Whoever turns one on answers for what it's told.
