"""A stored trajectory in the rich form of Retrace's own JSON Lines, a step at a time: what went in comes out, and goes in again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.trajectories.models import Step, Task, Trajectory
from contract import jsontext

STEPS_AT_ONCE = 20


def rich_form(trajectory: Trajectory) -> Iterator[bytes]:
    """The pieces of one JSON object; together they are one line."""
    head = {
        "format": "retrace/1",
        "id": trajectory.external_id,
        "task": _task(trajectory.task),
        "policy": trajectory.policy.name if trajectory.policy else None,
        "tools": trajectory.tools,
    }
    yield jsontext.dumps(head)[:-1] + b',"steps":['
    steps = Step.objects.filter(trajectory=trajectory).order_by("index")
    for place, step in enumerate(steps.iterator(chunk_size=STEPS_AT_ONCE)):
        yield (b"," if place else b"") + jsontext.dumps(_step(step))
    tail = {
        "closing": trajectory.closing,
        "outcome": {"reward": trajectory.reward, "success": trajectory.success, "termination": trajectory.termination},
        "tags": trajectory.tags,
        "info": trajectory.info,
    }
    yield b"]," + jsontext.dumps(tail)[1:] + b"\n"


def _task(task: Task) -> dict[str, Any]:
    return {
        "key": task.key,
        "instruction": task.instruction,
        "environment": task.environment,
        "initial_state": task.initial_state,
        "success_check": task.success_check,
        "category": task.category,
        "difficulty": task.difficulty,
        "held_out": task.held_out,
    }


def _step(step: Step) -> dict[str, Any]:
    info = dict(step.info) if isinstance(step.info, dict) else {}
    return {
        "context": step.context,
        "message": step.message,
        "reward": step.reward,
        "done": step.done,
        "error": info.pop("error", None),
        "seconds": step.seconds,
        "prompt_tokens": step.prompt_tokens,
        "completion_tokens": step.completion_tokens,
        "info": info,
    }
