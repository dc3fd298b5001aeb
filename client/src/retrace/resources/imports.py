"""Imports. `client.import_` sends files and rows."""

from __future__ import annotations

from typing import Literal, Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.core.request import Request, address
from retrace.models.imports import Adopt, Import, Survey
from retrace.models.queues import Queue


class Imports(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Import]:
        """All imports, newest first."""
        return Listing("/imports", Import, {"page_size": page_size})

    @operation
    def read(self, batch_id: str) -> Flow[Import]:
        """Read the state of an import."""
        return self._read("/imports/{}", batch_id, answer=Import)

    @operation
    def cancel(self, batch_id: str) -> Flow[Import]:
        """Stop an import. What was imported stays."""
        return self._act("/imports/{}/cancel", batch_id, answer=Import)

    @operation
    def retry(self, batch_id: str) -> Flow[Import]:
        """Resume a failed or cancelled import where it stopped."""
        return self._act("/imports/{}/retry", batch_id, answer=Import)

    @operation
    def rejected(self, batch_id: str, *, format: Literal["jsonl", "csv"] = "jsonl") -> Flow[str]:
        """The rejected rows as text, each with its line, the reason, and what was expected."""
        return self._text(Request("GET", address("/imports/{}/rejected", batch_id), {"format": format}))

    @operation
    def survey(self, batch_id: str) -> Flow[Survey]:
        """Which columns of the file contain judgments of its trajectories, and their values."""
        return self._read("/imports/{}/judgments", batch_id, answer=Survey)

    @operation
    def adopt(self, batch_id: str, **columns: Unpack[Adopt]) -> Flow[Queue]:
        """Create a closed queue from the file's own judgments."""
        return self._create("/imports/{}/judgments", batch_id, answer=Queue, body=columns)
