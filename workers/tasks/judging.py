"""Letting served models judge."""

from uuid import UUID

from apps.annotation.judges import judge_job
from apps.annotation.judges.jobs import SERVED_TASK
from workers.app import app


@app.task(name=SERVED_TASK)
def go_on(judge_id: str) -> None:
    """Judge for a minute and hand on. Delivered twice, the second one finds the judge taken."""
    judge_job.go_on(UUID(judge_id))
