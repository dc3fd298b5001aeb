"""Policies that take over in the middle of runs, on the `gpu` queue."""

from apps.annotation import continuing
from workers.app import app
from workers.bridge.continuing import ContinuationJob
from workers.bridge.supervising import supervise


@app.task(name="continuations.run")
def run_continuation(continuation_id: str) -> None:
    """Do a waiting one. Told twice, the second finds nothing to take."""
    continuation = continuing.claim(continuation_id)
    if continuation is not None:
        supervise(ContinuationJob(continuation))
