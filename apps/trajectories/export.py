"""Exports a stored trajectory as a line of retrace/1, step by step; importing it again loses nothing."""

from __future__ import annotations

from collections.abc import Iterator

from apps.common.downloads import in_pages
from apps.trajectories.models import Step, Task, Trajectory
from contract import trajectory as records

STEPS_AT_ONCE = 20


def rich_form(trajectory: Trajectory) -> Iterator[bytes]:
    """The line in pieces."""
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
    """The steps as they were read, a few in memory at a time."""
    return map(_step, in_pages(Step.objects.filter(trajectory=trajectory), by="index", size=STEPS_AT_ONCE))


def task_record(task: Task) -> records.Task:
    """A stored task as it was imported."""
    return records.Task(**{name: getattr(task, name) for name in records.names_of(records.Task)})


def _step(step: Step) -> records.Step:
    """The columns are the record's fields, except the error, which is stored in `info`."""
    info = dict(step.info) if isinstance(step.info, dict) else {}
    stored = {name: getattr(step, name) for name in records.names_of(records.Step) if name not in ("error", "info")}
    return records.Step(**stored, error=info.pop("error", None), info=info)
