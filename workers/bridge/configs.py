"""Rows as the trainer's configs."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.policies.models import Policy
from apps.training.folders import folder_of
from apps.training.models import Run
from trainer.configs import RunConfig, run_config_from_json


def training_config(run: Run, *, files: dict[str, str | None]) -> RunConfig:
    """What run.json says for `run`. `files` names the data file of each split. Raises InvalidField."""
    return config_from(
        algorithm=run.algorithm, base=run.base, config=run.config, files=files, folder=folder_of(run.pk).path
    )


def config_from(
    *, algorithm: str, base: Policy | None, config: dict[str, Any], files: dict[str, str | None], folder: Path
) -> RunConfig:
    """The same for a run that need not exist yet. Raises InvalidField."""
    model: dict[str, Any] = {"scratch": {}} if base is None else {"path": model_path(base, folder)}
    known = {"kind": algorithm, "model": model, **config}
    if not files:  # learns from its own rollouts
        return run_config_from_json(known)
    data = {"train": files["train"], **({"validation": files["validation"]} if files.get("validation") else {})}
    return run_config_from_json({**known, "data": data})


def model_path(policy: Policy, folder: Path) -> str:
    """Where the weights of a policy are, as run.json in `folder` says it: a relative folder, or a hub id."""
    place = Path(settings.RUNS_DIR) / policy.location
    if place.is_dir():
        return os.path.relpath(place, folder)
    return policy.location
