"""Task files for environments that Retrace doesn't provide: the tasks for which the workspace has trajectories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from apps.common.environments import ENVIRONMENTS
from apps.training.workspace_tasks import tasks_in, to_train_on
from apps.trajectories.export import task_record
from apps.trajectories.models import Task
from contract.configs.references import Online

TASKS, HELD_OUT = "tasks.jsonl", "held_out_tasks.jsonl"


def with_tasks_of_workspace(config: Online, folder: Path, *, workspace_id: UUID) -> Online:
    """Write the task files and return `config` with them; unchanged if Retrace draws the tasks. Raises OSError."""
    if config.tasks.environment in ENVIRONMENTS:
        return config
    tasks = tasks_in(workspace_id, config.tasks.environment, config.tasks.levels)
    _write(folder / TASKS, to_train_on(tasks).order_by("pk")[: config.tasks.count])
    held_out = _write(folder / HELD_OUT, tasks.filter(held_out=True).order_by("pk")[: config.held_out])
    return config.replaced(
        tasks=config.tasks.replaced(file=TASKS, levels=()),
        held_out=held_out,
        held_out_file=HELD_OUT if held_out else None,
    )


def _write(path: Path, tasks: Iterable[Task]) -> int:
    """Returns the number of tasks."""
    part, count = path.with_suffix(".part"), 0
    with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for task in tasks:
            file.write(json.dumps(task_record(task).to_json(), ensure_ascii=False) + "\n")
            count += 1
    os.replace(part, path)
    return count
