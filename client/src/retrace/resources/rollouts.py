"""Rollouts of policies."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.rollouts import Rollouts as Batch
from retrace.models.rollouts import StartRollouts


class Rollouts(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Batch]:
        """All batches of rollouts, newest first."""
        return Listing("/rollouts", Batch, {"page_size": page_size})

    @operation
    def start(self, **rollouts: Unpack[StartRollouts]) -> Flow[Batch]:
        """Start rollouts. `client.trajectories.list(rollouts=…)` lists the results."""
        return self._create("/rollouts", answer=Batch, body=rollouts)

    @operation
    def read(self, batch_id: str) -> Flow[Batch]:
        """Read the state of a batch."""
        return self._read("/rollouts/{}", batch_id, answer=Batch)

    @operation
    def cancel(self, batch_id: str) -> Flow[Batch]:
        """Cancel the rollouts that haven't ended."""
        return self._act("/rollouts/{}/cancel", batch_id, answer=Batch)

    @operation
    def resume(self, batch_id: str) -> Flow[Batch]:
        """Resume cancelled or lost rollouts."""
        return self._act("/rollouts/{}/resume", batch_id, answer=Batch)
