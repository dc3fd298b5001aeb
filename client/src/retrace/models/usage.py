"""Prices of tokens, and usage limits."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Required, TypedDict

from retrace.models.answer import Answer


class Price(Answer):
    """Prices per million tokens, in US dollars."""

    id: str
    policy: str | None
    endpoint: str | None
    input: Decimal
    cached: Decimal | None  # For cached input tokens; None: same as `input`.
    output: Decimal
    created_at: datetime


class UsageLimits(Answer):
    """Limits for all calls together, and per session. None: unlimited."""

    requests_a_minute: int | None
    tokens_a_minute: int | None
    dollars_a_day: Decimal | None  # Days start at 00:00 UTC.
    session_requests_a_minute: int | None
    session_tokens_a_minute: int | None
    session_dollars_a_day: Decimal | None


class NewPrice(TypedDict, total=False):
    """For a policy, or for all policies of an endpoint that have none of their own."""

    policy: str | None
    endpoint: str | None
    input: Required[str | float]
    cached: str | float | None  # Default: same as `input`.
    output: Required[str | float]


class NewUsageLimits(TypedDict, total=False):
    """All limits; those left out are removed."""

    requests_a_minute: int | None
    tokens_a_minute: int | None
    dollars_a_day: str | float | None
    session_requests_a_minute: int | None
    session_tokens_a_minute: int | None
    session_dollars_a_day: str | float | None
