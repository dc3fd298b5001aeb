"""Task files for environments that Retrace doesn't provide: the tasks for which the workspace has trajectories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from django.db.models import QuerySet

from apps.common.environments import ENVIRONMENTS
from apps.training.workspace_tasks import tasks_in, to_train_on
from apps.trajectories.export import task_record
from apps.trajectories.models import Task
from contract.configs.references import Online
from trainer.checkpoints import newest_complete
from trainer.records import read_tasks

TASKS, HELD_OUT = "tasks.jsonl", "held_out_tasks.jsonl"


def with_tasks_of_workspace(config: Online, folder: Path, *, workspace_id: UUID) -> Online:
    """Write the task files and return `config` with them; unchanged if Retrace draws the tasks. Raises OSError, DataFailure.

    A training run that resumes from a checkpoint keeps its tasks: others would change its steps, and success before and after wouldn't be of
    the same tasks.
    """
    if config.tasks.environment in ENVIRONMENTS:
        return config
    tasks = tasks_in(workspace_id, config.tasks.environment, config.tasks.levels)
    to_learn, held_out = to_train_on(tasks), tasks.filter(held_out=True)
    if newest_complete(folder / "checkpoints"):
        to_learn, held_out = _still_there(to_learn, folder / TASKS), _still_there(held_out, folder / HELD_OUT)
    _write(folder / TASKS, to_learn.order_by("pk")[: config.tasks.count])
    count = _write(folder / HELD_OUT, held_out.order_by("pk")[: config.held_out])
    return config.replaced(
        tasks=config.tasks.replaced(file=TASKS, levels=()),
        held_out=count,
        held_out_file=HELD_OUT if count else None,
    )


def _still_there(tasks: QuerySet[Task], path: Path) -> QuerySet[Task]:
    """Those of the tasks in a file, if it's there: an imported training run may lack it."""
    return tasks.filter(key__in=[task.key for task in read_tasks(path)]) if path.is_file() else tasks


def _write(path: Path, tasks: Iterable[Task]) -> int:
    """Returns the number of tasks."""
    part, count = path.with_suffix(".part"), 0
    with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for task in tasks:
            file.write(json.dumps(task_record(task).to_json(), ensure_ascii=False) + "\n")
            count += 1
    os.replace(part, path)
    return count
