"""Names the tasks that a training run in Retrace's own environments doesn't draw."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from apps.datasets.models import Split
from apps.trajectories.models import Task
from contract.left_out_tasks import FILE, write_left_out


def leave_out_tested_tasks(environment: str, folder: Path, *, workspace_id: UUID) -> None:
    """Have the trainer leave out the tasks of the environment with which dataset versions are validated and tested. Raises OSError.

    A resumed training run leaves out those of its first attempt: others would change the tasks that it draws.
    """
    if (folder / FILE).exists():
        return
    tested = Task.objects.filter(workspace=workspace_id, environment=environment)
    tested = tested.filter(split__split__in=[Split.VALIDATION, Split.TEST])
    write_left_out(tested.order_by("pk").values_list("key", flat=True), folder)
