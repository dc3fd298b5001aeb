"""Prices and limits: set by owners, and cached in each process for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.gateway.spending.models import LIMITS, Price, UsageLimits
from apps.policies.models import Endpoint, Policy

if TYPE_CHECKING:
    from apps.gateway.models import Call

CACHE_SECONDS = 5.0
"""How long a process uses cached prices and limits."""
MAX_CACHED = 10_000
MILLION = Decimal(1_000_000)
_cache: dict[tuple[UUID, UUID | None, UUID | None], tuple[float, Terms]] = {}
"""By workspace, policy, and endpoint, with the time of expiry."""


class Rates(NamedTuple):
    """Dollars per million tokens."""

    input: Decimal
    cached: Decimal
    output: Decimal

    def cost(self, *, read: int, written: int, cached: int = 0) -> Decimal:
        """Cost in dollars. cached: how many of the tokens read came from a cache."""
        cached = min(cached, read)
        return ((read - cached) * self.input + cached * self.cached + written * self.output) / MILLION


class Terms(NamedTuple):
    """Prices and limits for the calls of a session."""

    limits: UsageLimits | None
    rates: Rates | None
    """None: its policy has no price."""

    def cost_of(self, call: Call, read: int, written: int) -> tuple[Decimal | None, bool]:
        """Cost in dollars of a call that used these tokens, and whether it's estimated; None if unknown."""
        if not (read or written):
            return Decimal(0), False
        if self.rates is None:
            return None, False
        cost = self.rates.cost(read=read, written=written, cached=call.cached_tokens or 0)
        return cost, call.prompt_tokens is None or call.completion_tokens is None


NO_TERMS = Terms(None, None)


def cached_terms(workspace_id: UUID, policy_id: UUID | None, endpoint_id: UUID | None) -> Terms | None:
    """The terms if this process has them, at most CACHE_SECONDS old."""
    expires_at, terms = _cache.get((workspace_id, policy_id, endpoint_id), (0.0, NO_TERMS))
    return terms if time.monotonic() < expires_at else None


def terms_of(workspace_id: UUID, policy_id: UUID | None, endpoint_id: UUID | None) -> Terms:
    """The terms, at most CACHE_SECONDS old."""
    if (terms := cached_terms(workspace_id, policy_id, endpoint_id)) is not None:
        return terms
    key = (workspace_id, policy_id, endpoint_id)
    limits = UsageLimits.objects.filter(workspace=workspace_id).first()
    if limits is not None and all(getattr(limits, name) is None for name in LIMITS):
        limits = None
    of = Q(policy=policy_id, policy__isnull=False) | Q(endpoint=endpoint_id, endpoint__isnull=False)
    price = Price.objects.filter(of, workspace=workspace_id).order_by(F("policy").asc(nulls_last=True)).first()
    rates = None
    if price is not None:
        rates = Rates(price.input, price.input if price.cached is None else price.cached, price.output)
    if len(_cache) >= MAX_CACHED:
        _cache.clear()
    _cache[key] = time.monotonic() + CACHE_SECONDS, Terms(limits, rates)
    return _cache[key][1]


@transaction.atomic
def set_price(
    *,
    workspace: Workspace,
    by: User,
    input: Decimal,
    output: Decimal,
    cached: Decimal | None = None,
    policy: Policy | None = None,
    endpoint: Endpoint | None = None,
) -> Price:
    """Set the price of a policy or an endpoint (one of the two), from the next call on."""
    price, _ = Price.objects.update_or_create(
        workspace=workspace,
        policy=policy,
        endpoint=endpoint,
        defaults={"input": input, "cached": cached, "output": output},
    )
    _record(price, by, "set price", input=str(input), output=str(output), cached="" if cached is None else str(cached))
    return price


@transaction.atomic
def remove_price(*, price: Price, by: User) -> None:
    """Remove a price: the cost of later calls is unknown. Recorded costs stay."""
    if Price.objects.filter(pk=price.pk).delete()[0]:
        _record(price, by, "removed price")


@transaction.atomic
def set_limits(*, workspace: Workspace, by: User, limits: Mapping[str, Any]) -> UsageLimits:
    """Set the usage limits, effective within seconds. limits: all of LIMITS; None means no limit."""
    row, _ = UsageLimits.objects.update_or_create(
        workspace=workspace, defaults={name: limits.get(name) for name in LIMITS}
    )
    changes = {name: str(limits[name]) for name in LIMITS if limits.get(name) is not None}
    audit.record(
        workspace=workspace, actor=by, action="set usage limits", subject=workspace.name, target=workspace, **changes
    )
    return row


def _record(price: Price, by: User, action: str, **detail: str) -> None:
    audit.record(workspace=price.workspace, actor=by, action=action, subject=str(price), target=price, **detail)
