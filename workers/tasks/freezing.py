"""Building dataset versions in the background."""

from uuid import UUID

from apps.datasets import freezing
from apps.datasets.models import Version
from workers.app import app


@app.task(name="freezing.freeze")
def freeze(version_id: str) -> None:
    """Build a version. A second delivery finds the first one's lease, or its finished work, and does nothing."""
    freezing.freeze(UUID(version_id))


@app.task(name="freezing.resume")
def resume() -> None:
    """Hand over the versions whose worker stopped, and remind the workers of those that wait too long."""
    for version in Version.objects.overlooked():
        freezing.queue(version)
