"""Live experiments as tests make them: started over REST, with sessions of either arm."""

from typing import Any

from django.test import Client
from django.urls import reverse

from apps.arena.models import Experiment
from apps.gateway import sessions
from apps.gateway.models import Session
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from apps.policies.models import Policy
from tests import factories


def arms_of(split: TrafficSplit) -> list[Policy]:
    return [arm.policy for arm in split.arms.order_by("pk")]


def start(client: Client, split: TrafficSplit, **changes: Any) -> Any:
    body = {"name": "better?", "trajectories": "live", "split": str(split.pk), "tasks": 20, "min_tasks": 2, **changes}
    return client.post(reverse("v1:experiments"), body, content_type="application/json")


def play(
    split: TrafficSplit, task: str, *, side: int, success: bool | None = None, end: bool = True, **facts: Any
) -> Session:
    """A session at `task` of the split's first or second arm."""
    split.refresh_from_db()
    number = 0
    while True:  # until this side is drawn
        unit = f"{task} {number}"
        made = open_split_session(
            split=split, by=split.created_by, unit=unit, task={"key": task, "instruction": task, "environment": "shop"}
        ).session
        if made.drawn == arms_of(split)[side]:
            break
        made.delete()
        number += 1
    for name, value in facts.items():
        setattr(made, name, value)
    made.save()
    factories.call(of=made, message={"role": "assistant", "content": f"I did {task} as number {side}: {made.pk}."})
    if end:
        sessions.finish_session(session=made, success=success)
    return made


def both(split: TrafficSplit, *tasks: str) -> None:
    for task in tasks:
        play(split, task, side=0, success=False)
        play(split, task, side=1, success=True)


def judge(experiment: Experiment, strength: int) -> None:
    for item in experiment.queue.items.filter(judged=0):  # type: ignore[union-attr]  # it has one
        factories.preference(strength, on=item)
    experiment.queue.items.update(judged=1, taken=1)  # type: ignore[union-attr]
