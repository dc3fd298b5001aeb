"""Prices and usage limits, which owners set."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.usage import NewPrice, NewUsageLimits, Price, UsageLimits


class Prices(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Price]:
        """All prices, newest first."""
        return Listing("/prices", Price, {"page_size": page_size})

    @operation
    def set(self, **price: Unpack[NewPrice]) -> Flow[Price]:
        """Set the price of a million tokens, in US dollars, from the next call on."""
        return self._create("/prices", answer=Price, body=price)

    @operation
    def remove(self, price_id: str) -> Flow[Price]:
        """Remove a price: the cost of later calls is unknown."""
        return self._act("/prices/{}/remove", price_id, answer=Price)


class UsageLimitsOfWorkspace(Resource[C]):
    @operation
    def read(self) -> Flow[UsageLimits]:
        """Read the usage limits."""
        return self._read("/usage-limits", answer=UsageLimits)

    @operation
    def set(self, **limits: Unpack[NewUsageLimits]) -> Flow[UsageLimits]:
        """Set all limits; those left out are removed."""
        return self._create("/usage-limits", answer=UsageLimits, body=limits)
