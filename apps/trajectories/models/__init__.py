"""Tasks, the trajectories of agents that attempted them, and where those came from."""

from apps.trajectories.models.jobs import (
    ImportBatch,
    RejectedRow,
    RolloutBatch,
    RolloutBatchQuerySet,
)
from apps.trajectories.models.trajectories import (
    Original,
    SavedView,
    Step,
    StepKind,
    Task,
    Trajectory,
    TrajectoryQuerySet,
)
from apps.trajectories.models.uploads import Upload

__all__ = [
    "ImportBatch",
    "Original",
    "RejectedRow",
    "RolloutBatch",
    "RolloutBatchQuerySet",
    "SavedView",
    "Step",
    "StepKind",
    "Task",
    "Trajectory",
    "TrajectoryQuerySet",
    "Upload",
]
