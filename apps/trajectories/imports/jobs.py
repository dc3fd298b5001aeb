"""Imports as jobs: what the engine must know of them."""

from django.urls import reverse

from apps.jobs.kinds import Kind, register
from apps.trajectories.models import ImportBatch

TASK = "imports.run"

IMPORTS = register(
    Kind(
        name="imports",
        noun="import",
        label="Import",
        model=ImportBatch,
        task=lambda batch: TASK,
        title=lambda batch: batch.filename,
        url=lambda batch: reverse("trajectories:import", args=[batch.pk]),
        is_cancellable=True,
        is_resumable=True,
    )
)
