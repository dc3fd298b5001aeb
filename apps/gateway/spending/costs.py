"""Costs of calls for display: unknown costs are labeled as such, and never counted as zero."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from django.db.models import Count, Q, Sum


class Cost(NamedTuple):
    """Cost of a set of calls, in US dollars."""

    dollars: Decimal
    """Sum of the known and estimated costs."""
    calls: int
    estimated: int
    """Calls whose tokens the server didn't count, or whose agent disconnected before it did."""
    unknown: int
    """Calls of policies without a price."""

    @property
    def is_unknown(self) -> bool:
        return self.calls > 0 and self.unknown == self.calls

    def __str__(self) -> str:
        if self.is_unknown:
            return "unknown"
        qualifier = "at least " if self.unknown else "about " if self.estimated else ""
        return qualifier + dollars(self.dollars)

    def to_json(self) -> dict[str, Any]:
        return {
            "dollars": None if self.is_unknown else format(self.dollars.normalize(), "f"),
            "estimated_calls": self.estimated,
            "unknown_calls": self.unknown,
        }


def sums(prefix: str = "") -> dict[str, Any]:
    """Aggregates of calls, for `cost_in`. prefix: the lookup path to them, such as `calls__`."""
    has_cost = Q(**{f"{prefix}cost__isnull": False})
    return {
        "cost_dollars": Sum(f"{prefix}cost"),
        "cost_calls": Count(f"{prefix}pk"),
        "cost_estimated": Count(f"{prefix}pk", filter=has_cost & Q(**{f"{prefix}is_cost_estimated": True})),
        "cost_known": Count(f"{prefix}pk", filter=has_cost),
    }


def cost_in(row: Mapping[str, Any]) -> Cost:
    """The cost from a row with the aggregates of `sums`."""
    calls = row.get("cost_calls") or 0
    unknown = calls - (row.get("cost_known") or 0)
    return Cost(row.get("cost_dollars") or Decimal(0), calls, row.get("cost_estimated") or 0, unknown)


def exact(amount: Decimal) -> str:
    """A price with all its digits, at least two decimals: $100.00, $0.50, $0.000125."""
    digits = max(2, -int(amount.normalize().as_tuple().exponent))
    return f"${amount:,.{digits}f}"


def dollars(amount: Decimal) -> str:
    """An amount with its significant digits: $12.30, $0.0123, $0.00000012."""
    if amount == 0 or amount >= 1:
        return f"${amount:,.2f}"
    digits = min(12, 1 - amount.adjusted())  # two nonzero digits
    return f"${amount:.{max(2, digits)}f}"
