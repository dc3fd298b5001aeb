"""Policies that take over in the middle of runs: loaded on the `gpu` queue, or served elsewhere and asked from any worker."""

from apps.annotation.desk import continuing
from workers.app import app
from workers.bridge.continuing import ContinuationJob
from workers.bridge.supervising import supervise


@app.task(name=continuing.LOADED_TASK)
def run_loaded(continuation_id: str) -> None:
    _run(continuation_id)


@app.task(name=continuing.SERVED_TASK)
def run_served(continuation_id: str) -> None:
    _run(continuation_id)


def _run(continuation_id: str) -> None:
    """Do a waiting one. Told twice, the second finds nothing to take."""
    continuation = continuing.claim(continuation_id)
    if continuation is not None:
        supervise(ContinuationJob(continuation))
