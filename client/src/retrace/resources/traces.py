"""Traces sent by instrumented agents."""

from __future__ import annotations

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.traces import TelemetryTrace


class Traces(Resource[C]):
    @listing
    def list(self, *, trace_id: str | None = None, page_size: int | None = None) -> Listing[TelemetryTrace]:
        """All traces, newest first, or the one with the OpenTelemetry id `trace_id`."""
        return Listing("/traces", TelemetryTrace, {"trace_id": trace_id, "page_size": page_size})

    @operation
    def read(self, trace_id: str) -> Flow[TelemetryTrace]:
        """Read the state of a trace, by its Retrace id."""
        return self._read("/traces/{}", trace_id, answer=TelemetryTrace)
