"""Building dataset versions in the background."""

from uuid import UUID

from apps.datasets import freezing
from apps.datasets.jobs import TASK
from workers.app import app


@app.task(name=TASK)
def freeze(version_id: str) -> None:
    """Build a version. A second delivery finds the first one's lease, or its finished work, and does nothing."""
    freezing.freeze(UUID(version_id))
