"""Deletions: previews and results."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Blocker(Answer):
    """Something that must be deleted or end first."""

    words: str
    page: str  # The path of its page.


class Outlook(Answer):
    """A preview of a deletion."""

    title: str
    goes: dict[str, int]  # Number of objects that would be deleted, by kind.
    blockers: list[Blocker]  # What prevents the deletion; the first ten.
    has_more: bool


class Deletion(Waitable):
    """A deletion: its progress, and what was deleted."""

    id: str
    thing: str
    target: str
    title: str
    state: str
    removed: dict[str, int]
    error: str  # Why nothing was deleted.
    created_at: datetime
    finished_at: datetime | None

    @property
    def path(self) -> str:
        return address("/deletions/{}", self.id)

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    @property
    def problem(self) -> str:
        return (self.error or f"The deletion is {self.state}.") if self.state in ("failed", "cancelled") else ""

    @property
    def progress(self) -> Progress:
        return Progress(0, 0, "steps")


class Target(TypedDict):
    """The object to delete."""

    thing: Literal["trajectory", "task", "queue", "dataset", "version"]
    target: str  # Its id.
