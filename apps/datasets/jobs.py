"""Versions in the making as jobs: what the engine must know of them."""

from django.db import transaction
from django.urls import reverse

from apps.datasets import live
from apps.datasets.files.storage import discard
from apps.datasets.models import Version
from apps.jobs.kinds import Event, Kind, register

TASK = "freezing.freeze"


def _announce(version: Version, event: Event) -> None:
    """Show it to those who look, and leave nothing behind of attempts that came to nothing."""
    if event.kind in ("finished", "failed"):
        discard(version, range(1, version.attempt + (event.kind == "failed")))
    transaction.on_commit(lambda: live.version_changed(version.pk), robust=True)


VERSIONS = register(
    Kind(
        name="versions",
        noun="version",
        label="Dataset version",
        model=Version,
        task=lambda version: TASK,
        title=str,
        url=lambda version: reverse("datasets:version", args=[version.dataset_id, version.number]),
        on_event=_announce,
        related=("dataset", "workspace"),
        listed_with=("dataset",),
    )
)
