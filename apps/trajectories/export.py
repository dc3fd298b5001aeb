"""A stored trajectory as a line of retrace/1, a step at a time: what went in comes out, and goes in again."""

from __future__ import annotations

from collections.abc import Iterator

from apps.common.downloads import in_pages
from apps.trajectories.models import Step, Task, Trajectory
from contract import trajectory as records

STEPS_AT_ONCE = 20


def rich_form(trajectory: Trajectory) -> Iterator[bytes]:
    """The pieces of the line."""
    record = records.Trajectory(
        task=task_record(trajectory.task),
        steps=[],
        outcome=records.Outcome(trajectory.reward, trajectory.success, trajectory.termination),
        id=trajectory.external_id,
        policy=trajectory.policy.name if trajectory.policy else None,
        tools=trajectory.tools,
        closing=trajectory.closing,
        tags=trajectory.tags,
        info=trajectory.info,
    )
    return record.line(steps_of(trajectory))


def steps_of(trajectory: Trajectory) -> Iterator[records.Step]:
    """Its steps as they were read, few in memory at a time."""
    return map(_step, in_pages(Step.objects.filter(trajectory=trajectory), by="index", size=STEPS_AT_ONCE))


def task_record(task: Task) -> records.Task:
    """A stored task as it came in."""
    return records.Task(**{name: getattr(task, name) for name in records.names_of(records.Task)})


def _step(step: Step) -> records.Step:
    """The columns are the fields, but for the error, which is stored with the rest."""
    info = dict(step.info) if isinstance(step.info, dict) else {}
    stored = {name: getattr(step, name) for name in records.names_of(records.Step) if name not in ("error", "info")}
    return records.Step(**stored, error=info.pop("error", None), info=info)
