"""Filling queues with items."""

from uuid import UUID

from apps.annotation.queues import items
from workers.app import app


@app.task(name="filling.fill")
def fill(queue_id: str) -> None:
    """Turn a queue's selection into items. Delivered twice, it goes on where the first one is."""
    try:
        items.fill(UUID(queue_id))
    except Exception as error:
        items.record_failure(UUID(queue_id), f"{type(error).__name__}: {error}")
        raise
