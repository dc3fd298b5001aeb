"""Rollouts, on the `gpu` queue."""

from apps.trajectories.rollouts import harvesting
from workers.app import app
from workers.bridge.process import worker_name
from workers.bridge.rollouts import RolloutJob
from workers.bridge.supervising import supervise


@app.task(name="rollouts.run")
def run_rollouts(batch_id: str) -> None:
    """Do a waiting batch. Told twice, the second finds nothing to take."""
    batch = harvesting.claim(batch_id, worker=worker_name())
    if batch is not None:
        supervise(RolloutJob(batch))
