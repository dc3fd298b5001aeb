"""Imports in the background."""

from apps.trajectories.imports.claiming import recover
from apps.trajectories.imports.importing import run_import
from apps.trajectories.imports.watching import LiveImport
from workers.app import app


@app.task(name="imports.run")
def run(batch_id: str) -> None:
    """Import one batch; nothing where it is over or in good hands, so it can be told twice."""
    run_import(batch_id, watch=LiveImport())


@app.task(name="imports.recover")
def recover_imports() -> None:
    """Go on with imports whose worker vanished."""
    recover()
