"""Deletions of objects with everything that belongs to them."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.deletions import Deletion, Outlook, Target


class Deletions(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Deletion]:
        """All deletions, newest first."""
        return Listing("/deletions", Deletion, {"page_size": page_size})

    @operation
    def preview(self, **target: Unpack[Target]) -> Flow[Outlook]:
        """Preview what a deletion would delete, or what prevents it."""
        return self._create("/deletions/preview", answer=Outlook, body=target)

    @operation
    def create(self, **target: Unpack[Target]) -> Flow[Deletion]:
        """Delete an object for good. Returns at once; `client.wait` waits until it's deleted."""
        return self._create("/deletions", answer=Deletion, body=target)

    @operation
    def read(self, removal_id: str) -> Flow[Deletion]:
        """Read the state of a deletion."""
        return self._read("/deletions/{}", removal_id, answer=Deletion)
