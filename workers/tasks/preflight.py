"""Answers whether a planned run can be, on the `default` queue: the gpu workers may be busy for hours."""

from typing import Any

from apps.training.preflight import answer
from workers.app import app
from workers.bridge.preflight import check


@app.task(name="preflight.check", acks_late=False)
def check_plan(key: str, plan: dict[str, Any]) -> None:
    """Look at the model and the memory, and leave the answer where the page finds it."""
    answer(key, check(plan))
