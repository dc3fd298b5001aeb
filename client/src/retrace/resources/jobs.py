"""Background jobs of every kind, for owners."""

from __future__ import annotations

from collections.abc import Sequence

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.jobs import Job


class Jobs(Resource[C]):
    @listing
    def list(
        self, *, kind: str | None = None, phase: Sequence[str] | None = None, page_size: int | None = None
    ) -> Listing[Job]:
        """Jobs, newest first, optionally of one `kind` (training_runs, rollouts, imports, …) and in some phases."""
        return Listing("/jobs", Job, {"kind": kind, "phase": phase, "page_size": page_size})

    @operation
    def cancel(self, kind: str, job_id: str) -> Flow[Job]:
        """Cancel a job."""
        return self._act("/jobs/{}/{}/cancel", kind, job_id, answer=Job)

    @operation
    def resume(self, kind: str, job_id: str) -> Flow[Job]:
        """Resume a job."""
        return self._act("/jobs/{}/{}/resume", kind, job_id, answer=Job)
