"""Letting reward models judge."""

from uuid import UUID

from apps.annotation.judges.jobs import LOADED_TASK
from workers.app import app
from workers.bridge import scoring


@app.task(name=LOADED_TASK)
def go_on(judge_id: str) -> None:
    """Score a stretch of a queue and hand on. Delivered twice, the second one finds the judge taken."""
    scoring.go_on(UUID(judge_id))
