"""Imports in the background."""

from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.jobs import TASK
from apps.trajectories.imports.live import LiveImport
from workers.app import app


@app.task(name=TASK)
def run(batch_id: str) -> None:
    """Import one batch; nothing where it is over or in good hands, so it can be told twice."""
    run_import(batch_id, watch=LiveImport())
