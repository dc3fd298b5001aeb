"""What a worker and a trainer tell each other of a run that another tracker shows, too: `tracking.json` in the run's folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from contract.whole_files import write_whole

Tracker = Literal["none", "mlflow", "tensorboard", "trackio", "wandb"]
TITLES: dict[str, str] = {
    "none": "Nowhere else",
    "mlflow": "MLflow",
    "tensorboard": "TensorBoard",
    "trackio": "Trackio",
    "wandb": "Weights & Biases",
}
KEYS: dict[str, str] = {"wandb": "WANDB_API_KEY"}
"""The variable of a tracker's key, among those that a training run sees only if it needs them."""
FILE = "tracking.json"


@dataclass(frozen=True)
class Tracking:
    """How the run is shown there."""

    name: str = ""
    """What people call the run."""
    page: str = ""
    """The address of its page here; empty where the installation doesn't know its own."""
    run: str = ""
    """What the tracker calls it; empty until it has begun there. A resumed run goes on under this id."""


def read_tracking(folder: Path) -> Tracking:
    """Nothing is known of a folder without the file."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Tracking()
    return Tracking(**{each.name: found[each.name] for each in fields(Tracking) if each.name in found})


def write_tracking(tracking: Tracking, folder: Path) -> None:
    write_whole(folder / FILE, json.dumps(asdict(tracking)))
