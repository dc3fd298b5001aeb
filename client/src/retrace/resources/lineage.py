"""Where an object came from, and what learned from it."""

from __future__ import annotations

from retrace.core.flow import Flow
from retrace.core.operations import C, Resource, operation
from retrace.models.lineage import Lineage as Answer


class Lineage(Resource[C]):
    @operation
    def policy(self, policy_id: str) -> Flow[Answer]:
        """Where a policy came from, and what learned from it."""
        return self._read("/lineage/policies/{}", policy_id, answer=Answer)

    @operation
    def run(self, run_id: str) -> Flow[Answer]:
        """What a training run started from, and what learned from its result."""
        return self._read("/lineage/runs/{}", run_id, answer=Answer)

    @operation
    def judgment(self, judgment_id: str) -> Flow[Answer]:
        """Which versions contain a judgment, and what learned from them."""
        return self._read("/lineage/judgments/{}", judgment_id, answer=Answer)

    @operation
    def item(self, item_id: int) -> Flow[Answer]:
        """Which versions contain an item's judgments, and what learned from them."""
        return self._read("/lineage/items/{}", item_id, answer=Answer)

    @operation
    def trajectory(self, trajectory_id: str) -> Flow[Answer]:
        """Which versions contain a trajectory's judgments, and what learned from them."""
        return self._read("/lineage/trajectories/{}", trajectory_id, answer=Answer)

    @operation
    def version(self, version_id: str) -> Flow[Answer]:
        """What learned from a version."""
        return self._read("/lineage/versions/{}", version_id, answer=Answer)
