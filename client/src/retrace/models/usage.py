"""What tokens cost, and how much may be used."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Required, TypedDict

from retrace.models.answer import Answer


class Price(Answer):
    """What a million tokens cost, in US dollars."""

    id: str
    policy: str | None
    endpoint: str | None
    input: Decimal
    cached: Decimal | None  # Of tokens that came from a cache; None: as other input.
    output: Decimal
    created_at: datetime


class UsageLimits(Answer):
    """How much all calls may use together, and each session by itself. None: as much as it likes."""

    requests_a_minute: int | None
    tokens_a_minute: int | None
    dollars_a_day: Decimal | None  # Days begin at 0:00 UTC.
    session_requests_a_minute: int | None
    session_tokens_a_minute: int | None
    session_dollars_a_day: Decimal | None


class NewPrice(TypedDict, total=False):
    """Of a policy, or of all policies of an endpoint that have none of their own."""

    policy: str | None
    endpoint: str | None
    input: Required[str | float]
    cached: str | float | None  # Left out: as other input.
    output: Required[str | float]


class NewUsageLimits(TypedDict, total=False):
    """All limits; what is left out is none."""

    requests_a_minute: int | None
    tokens_a_minute: int | None
    dollars_a_day: str | float | None
    session_requests_a_minute: int | None
    session_tokens_a_minute: int | None
    session_dollars_a_day: str | float | None
