"""Trajectories."""

from __future__ import annotations

from typing import Any, Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.trajectories import Filter, Trajectory


class Trajectories(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None, **filters: Unpack[Filter]) -> Listing[Trajectory]:
        """The trajectories that match every filter, newest first."""
        return Listing("/trajectories", Trajectory, {**filters, "page_size": page_size})

    @operation
    def read(self, trajectory_id: str) -> Flow[dict[str, Any]]:
        """Read one in full, in Retrace's own import format."""
        return self._read("/trajectories/{}", trajectory_id, answer=dict[str, Any])
