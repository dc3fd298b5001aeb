"""Prices of tokens, and usage limits."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from apps.accounts.models import Role, WorkspaceModel, WorkspaceQuerySet
from apps.gateway.spending.costs import exact
from apps.policies.models import Endpoint, Policy

WHOLE_DIGITS, DECIMALS = 8, 6
"""Digits of a price in dollars per million tokens."""


class Price(WorkspaceModel):
    """Price of a million tokens for a policy, or for all policies of an endpoint without a price of their own. In US dollars."""

    visible_from: ClassVar[Role] = Role.OWNER

    policy = models.OneToOneField(Policy, on_delete=models.CASCADE, null=True, related_name="price")
    endpoint = models.OneToOneField(Endpoint, on_delete=models.CASCADE, null=True, related_name="price")
    input = models.DecimalField(max_digits=WHOLE_DIGITS + DECIMALS, decimal_places=DECIMALS)
    cached = models.DecimalField(
        max_digits=WHOLE_DIGITS + DECIMALS,
        decimal_places=DECIMALS,
        null=True,
        help_text="Price of cached input tokens; null: same as other input.",
    )
    output = models.DecimalField(max_digits=WHOLE_DIGITS + DECIMALS, decimal_places=DECIMALS)

    objects = WorkspaceQuerySet["Price"].as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=Q(policy=None, endpoint__isnull=False) | Q(policy__isnull=False, endpoint=None),
                name="price_is_of_a_policy_or_an_endpoint",
            ),
            CheckConstraint(
                condition=Q(input__gte=0, output__gte=0) & (Q(cached=None) | Q(cached__gte=0)),
                name="prices_are_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return str(self.policy or self.endpoint)

    @property
    def as_text(self) -> dict[str, str]:
        """By table column; "" for a cache without a price of its own."""
        return {
            "input": exact(self.input),
            "cached": "" if self.cached is None else exact(self.cached),
            "output": exact(self.output),
        }


class UsageLimits(WorkspaceModel):
    """Limits for all calls of a workspace together, and per session. Null: unlimited."""

    visible_from: ClassVar[Role] = Role.OWNER

    requests_a_minute = models.PositiveIntegerField(null=True)
    tokens_a_minute = models.PositiveIntegerField(null=True)
    dollars_a_day = models.DecimalField(
        max_digits=12, decimal_places=2, null=True, help_text="Days start at 00:00 UTC."
    )
    session_requests_a_minute = models.PositiveIntegerField(null=True)
    session_tokens_a_minute = models.PositiveIntegerField(null=True)
    session_dollars_a_day = models.DecimalField(max_digits=12, decimal_places=2, null=True)

    objects = WorkspaceQuerySet["UsageLimits"].as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["workspace"], name="one_usage_limits_per_workspace")]

    @property
    def has_money(self) -> bool:
        """Whether calls need a price."""
        return self.dollars_a_day is not None or self.session_dollars_a_day is not None


LIMITS = (
    *("requests_a_minute", "tokens_a_minute", "dollars_a_day"),
    *("session_requests_a_minute", "session_tokens_a_minute", "session_dollars_a_day"),
)
