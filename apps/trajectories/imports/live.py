"""Live progress of an import for viewers of its page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from channels.db import database_sync_to_async
from django.template.loader import render_to_string

from apps.accounts.models import Membership
from apps.common import live
from apps.common.text_encoding import escaped
from apps.ingest import formats
from apps.trajectories.models import ImportBatch

SHOWN_REJECTED = 20
"""Rejected rows shown on the page; the downloads have all of them."""


def group_of(batch: ImportBatch) -> str:
    """The channel group for an import."""
    return f"import.{batch.pk}"


def progress_of(batch: ImportBatch) -> Mapping[str, Any]:
    """The context of the progress partial."""
    percent = 100 * batch.bytes_read // batch.size if batch.size else 0
    duration = batch.finished_at - batch.started_at if batch.finished_at and batch.started_at else None
    return {
        "batch": batch,
        "percent": percent,
        "share": f"{percent} %",
        "format": formats.titled(batch.format),
        "seconds": duration.total_seconds() if duration else None,
        "next_record": batch.position + 1,
        "rejected": batch.rejected_rows.order_by("position")[:SHOWN_REJECTED] if batch.rejected_count else [],
    }


def rendered(batch: ImportBatch) -> str:
    """The rendered progress partial."""
    return render_to_string("trajectories/_import_progress.html", progress_of(batch))


class LiveImport:
    """Sends the progress partial after chunks, at most twice a second, and always at the end."""

    EVERY = 0.5

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, batch: ImportBatch) -> None:
        if batch.is_active and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.EVERY
        with live.best_effort(batch.pk):
            live.send(group_of(batch), rendered(batch))


class ImportConsumer(live.LiveConsumer):
    """/ws/imports/<id>/"""

    _batch: ImportBatch | None = None

    def find_group(self, member: Membership) -> str | None:
        batch = ImportBatch.objects.visible_to(member).filter(pk=self.scope["url_route"]["kwargs"]["batch_id"]).first()
        self._batch = batch
        return group_of(batch) if batch else None

    async def connect(self) -> None:
        await super().connect()
        if self.is_open:
            # The import may have ended before this connection; now that the group is joined, no update can be missed.
            await self.send(text_data=escaped(await database_sync_to_async(self._state)()))

    def _state(self) -> str:
        assert self._batch is not None, "a group was found for it"
        self._batch.refresh_from_db()
        return rendered(self._batch)
