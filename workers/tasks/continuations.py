"""Policies that take over in the middle of runs: loaded on the `gpu` queue, or served elsewhere and asked from any worker."""

from apps.annotation.desk.jobs import CONTINUATIONS, LOADED_TASK, SERVED_TASK
from workers.app import app
from workers.bridge.continuation_job import ContinuationJob
from workers.bridge.supervisor import work


@app.task(name=LOADED_TASK)
def run_loaded(continuation_id: str) -> None:
    """Do a waiting one. Told twice, the second finds nothing to take."""
    work(CONTINUATIONS, continuation_id, ContinuationJob)


@app.task(name=SERVED_TASK)
def run_served(continuation_id: str) -> None:
    """The same, where the policy is served."""
    work(CONTINUATIONS, continuation_id, ContinuationJob)
