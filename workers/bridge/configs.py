"""Rows as the trainer's configs."""

import os
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from apps.policies.locations import HubModel, LocationRefused, model_source
from apps.policies.models import Policy
from apps.training.folders import folder_of
from apps.training.models import Run
from trainer.configs import RunConfig, run_config_from_json
from trainer.failures import ConfigFailure


def training_config(run: Run, *, files: dict[str, str | None]) -> RunConfig:
    """What run.json says for `run`. `files` names the data file of each split. Raises InvalidField, ConfigFailure."""
    return config_from(
        algorithm=run.algorithm,
        base=run.base,
        workspace_id=run.workspace_id,
        config=run.config,
        files=files,
        folder=folder_of(run.pk).path,
    )


def config_from(
    *,
    algorithm: str,
    base: Policy | None,
    workspace_id: UUID,
    config: dict[str, Any],
    files: dict[str, str | None],
    folder: Path,
) -> RunConfig:
    """The same for a run that need not exist yet. Raises InvalidField, ConfigFailure."""
    model: dict[str, Any] = (
        {"scratch": {}} if base is None else {"path": model_path(base, folder, workspace_id=workspace_id)}
    )
    known = {**config, "kind": algorithm, "model": model}
    if not files:  # learns from its own rollouts
        return run_config_from_json(known)
    data = {"train": files["train"], **({"validation": files["validation"]} if files.get("validation") else {})}
    return run_config_from_json({**known, "data": data})


def model_path(policy: Policy, folder: Path, *, workspace_id: UUID) -> str:
    """Where the weights of a policy are, as run.json in `folder` says it: a folder (relative where it is another run's), or a hub id.

    Raises ConfigFailure where the workspace may not load it.
    """
    try:
        source = model_source(policy, workspace_id=workspace_id)
    except LocationRefused as refused:
        raise ConfigFailure(f"model.path: {refused}", advice="Choose another policy.") from None
    if isinstance(source, HubModel):
        return source.id
    return os.path.relpath(source, folder) if source.is_relative_to(settings.RUNS_DIR) else str(source)
