"""Rollouts, on the `gpu` queue."""

from apps.trajectories.rollouts.jobs import ROLLOUTS, TASK
from workers.app import app
from workers.bridge.rollouts import RolloutJob
from workers.bridge.supervisor import work


@app.task(name=TASK)
def run_rollouts(batch_id: str) -> None:
    """Do a waiting batch. Told twice, the second finds nothing to take."""
    work(ROLLOUTS, batch_id, RolloutJob)
