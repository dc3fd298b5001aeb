"""Training runs, on the `gpu` queue."""

from apps.training.jobs import RUNS, TASK
from workers.app import app
from workers.bridge.supervisor import work
from workers.bridge.training_job import TrainingJob


@app.task(name=TASK)
def run_training(run_id: str) -> None:
    """Do a queued run. Told twice, the second finds nothing to take."""
    work(RUNS, run_id, TrainingJob)
