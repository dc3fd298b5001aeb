"""Letting served models judge."""

from uuid import UUID

from apps.annotation.judges import judging
from workers.app import app


@app.task(name="judging.go_on")
def go_on(judge_id: str) -> None:
    """Judge for a minute and hand on. Delivered twice, the second one finds the judge taken."""
    judging.go_on(UUID(judge_id))
