"""Exports of the whole workspace, and imports of archives into an empty one."""

from __future__ import annotations

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.transfer import Export, WorkspaceImport


class Exports(Resource[C]):
    """Exports of the workspace. `client.export_workspace` asks for one and downloads its archive."""

    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Export]:
        """All exports of the workspace, newest first."""
        return Listing("/workspace/exports", Export, {"page_size": page_size})

    @operation
    def create(self, *, include_weights: bool = False) -> Flow[Export]:
        """Have everything in the workspace written to one archive."""
        return self._create("/workspace/exports", answer=Export, body={"include_weights": include_weights})

    @operation
    def read(self, export_id: str) -> Flow[Export]:
        """Read the state of an export."""
        return self._read("/workspace/exports/{}", export_id, answer=Export)

    @operation
    def delete(self, export_id: str) -> Flow[Export]:
        """Delete the archive of an export before it expires."""
        return self._act("/workspace/exports/{}/delete", export_id, answer=Export)


class WorkspaceImports(Resource[C]):
    """Imports of archives. `client.import_workspace` sends one."""

    @listing
    def list(self, *, page_size: int | None = None) -> Listing[WorkspaceImport]:
        """All imports of archives into the workspace, newest first."""
        return Listing("/workspace/imports", WorkspaceImport, {"page_size": page_size})

    @operation
    def read(self, archive_import_id: str) -> Flow[WorkspaceImport]:
        """Read the state of the import of an archive."""
        return self._read("/workspace/imports/{}", archive_import_id, answer=WorkspaceImport)
