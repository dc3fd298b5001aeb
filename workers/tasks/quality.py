"""Measuring how good the judgments of a queue are."""

from uuid import UUID

from apps.annotation.quality import reports
from workers.app import app


@app.task(name="quality.measure")
def measure(queue_id: str) -> None:
    """Read a queue's judgments and keep what they come to. Running twice does no harm."""
    reports.measure_quality(UUID(queue_id))
