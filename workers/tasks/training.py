"""Training runs, on the `gpu` queue."""

from apps.training import claiming
from workers.app import app
from workers.bridge.process import worker_name
from workers.bridge.supervising import supervise
from workers.bridge.training import TrainingJob


@app.task(name="training.run")
def run_training(run_id: str) -> None:
    """Do a queued run. Told twice, the second finds nothing to take."""
    run = claiming.claim(run_id, worker=worker_name())
    if run is not None:
        supervise(TrainingJob(run))
