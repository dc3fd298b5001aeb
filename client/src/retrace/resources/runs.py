"""Training runs."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.runs import Launch, Point, Run

Points = list[Point]


class Runs(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Run]:
        """All training runs, newest first."""
        return Listing("/runs", Run, {"page_size": page_size})

    @operation
    def launch(self, **run: Unpack[Launch]) -> Flow[Run]:
        """Launch a training run. Returns at once; `client.wait` waits until it has ended."""
        return self._create("/runs", answer=Run, body=run)

    @operation
    def read(self, run_id: str) -> Flow[Run]:
        """Read a training run."""
        return self._read("/runs/{}", run_id, answer=Run)

    @operation
    def metrics(self, run_id: str, *, after: int | None = None, most: int | None = None) -> Flow[Points]:
        """Metrics step by step; a long training run is reduced to `most` means of neighboring steps."""
        return self._read("/runs/{}/metrics", run_id, answer=Points, after=after, most=most)

    @operation
    def cancel(self, run_id: str) -> Flow[Run]:
        """Cancel a training run. It keeps its last checkpoint."""
        return self._act("/runs/{}/cancel", run_id, answer=Run)

    @operation
    def resume(self, run_id: str) -> Flow[Run]:
        """Resume a training run from its last checkpoint."""
        return self._act("/runs/{}/resume", run_id, answer=Run)

    @operation
    def resume_with(self, run_id: str, alarm_id: int) -> Flow[Run]:
        """Resume a training run with the setting that an alarm suggests."""
        return self._act("/runs/{}/alarms/{}/resume", run_id, alarm_id, answer=Run)
