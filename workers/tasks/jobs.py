"""The one place that brings jobs back, whatever became of their workers."""

from apps.jobs import lifecycle
from workers.app import app


@app.task(name="jobs.recover", acks_late=False)
def recover() -> None:
    """Give jobs of vanished workers to others, and remind the workers of jobs that wait too long."""
    lifecycle.recover_all()
