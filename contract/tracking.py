"""What a worker and a trainer share about a run on an external tracker: `tracking.json` in the run's folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from contract.atomic_files import write_atomically

Tracker = Literal["none", "mlflow", "tensorboard", "trackio", "wandb"]
TITLES: dict[str, str] = {
    "none": "Nowhere else",
    "mlflow": "MLflow",
    "tensorboard": "TensorBoard",
    "trackio": "Trackio",
    "wandb": "Weights & Biases",
}
KEYS: dict[str, tuple[str, ...]] = {
    "mlflow": ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"),
    "wandb": ("WANDB_API_KEY",),
}
"""The variables of each tracker's credentials; a training run sees them only if it uses that tracker."""
FILE = "tracking.json"


@dataclass(frozen=True)
class Tracking:
    """A run on an external tracker."""

    name: str = ""
    """The run's display name."""
    page: str = ""
    """URL of its page in Retrace; empty if the installation's own URL isn't set."""
    run: str = ""
    """The tracker's id of it; empty until it has started there. A resumed run continues under this id."""


def read_tracking(folder: Path) -> Tracking:
    """Empty if the folder has no such file."""
    try:
        data = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Tracking()
    return Tracking(**{field.name: data[field.name] for field in fields(Tracking) if field.name in data})


def write_tracking(tracking: Tracking, folder: Path) -> None:
    write_atomically(folder / FILE, json.dumps(asdict(tracking)))
