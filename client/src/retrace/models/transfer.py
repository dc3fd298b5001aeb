"""Exports of a workspace, and imports of archives."""

from __future__ import annotations

from datetime import datetime

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class _Transfer(Waitable):
    id: str
    state: str
    size: int  # Size of the archive in bytes.
    sha256: str  # SHA-256 of the archive.
    rows_done: int
    rows_expected: int
    error: str
    created_at: datetime
    finished_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None

    @property
    def problem(self) -> str:
        return self.error or ("It was cancelled." if self.state == "cancelled" else "")

    @property
    def progress(self) -> Progress:
        return Progress(self.rows_done, self.rows_expected, "rows")


class Export(_Transfer):
    """An export of the workspace: its progress, and the facts of its archive."""

    include_weights: bool
    has_archive: bool  # Whether the archive can be downloaded.
    counts: dict[str, int]  # Rows of each member of the archive.
    expires_at: datetime | None  # When the archive is deleted.

    @property
    def path(self) -> str:
        return address("/workspace/exports/{}", self.id)


class Person(Answer):
    """Somebody who was a member of the exported workspace and isn't one here."""

    email: str
    name: str
    role: str  # What they were there. The import gives nobody a role.


class WorkspaceImport(_Transfer):
    """The import of an archive into the workspace."""

    filename: str
    counts: dict[str, int]  # Number of imported rows of each table.
    people: list[Person]  # Whom you may want to invite.

    @property
    def path(self) -> str:
        return address("/workspace/imports/{}", self.id)
