"""Letting reward models judge."""

from uuid import UUID

from apps.annotation.judges.jobs import LOADED_TASK
from workers.app import app
from workers.bridge import reward_scores


@app.task(name=LOADED_TASK)
def go_on(judge_id: str) -> None:
    """Score a stretch of a queue and hand on. Delivered twice, the second one finds the judge taken."""
    reward_scores.go_on(UUID(judge_id))
