"""Rows as the trainer's configs."""

from pathlib import Path
from typing import Any
from uuid import UUID

from apps.policies.models import Policy
from apps.training.folders import folder_of
from apps.training.models import Run
from contract.configs import GrpoConfig, InvalidConfig, RlooConfig, RunConfig, run_config_from_json
from trainer.failures import as_failure
from workers.bridge.locations import model_path
from workers.bridge.reward_terms import with_places


def training_config(run: Run, *, files: dict[str, str | None]) -> RunConfig:
    """What run.json says for `run`. `files` names the data file of each split. Raises ConfigFailure."""
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
    """The same for a run that need not exist yet. Raises ConfigFailure."""
    shape = config.get("model", {}).get("scratch", {})
    model: dict[str, Any] = (
        {"scratch": shape} if base is None else {"path": model_path(base, folder, workspace_id=workspace_id)}
    )
    known = {**config, "kind": algorithm, "model": model}
    if not files:  # learns from its own rollouts
        online = checked_config(known)
        return (
            with_places(online, folder, workspace_id=workspace_id)
            if isinstance(online, GrpoConfig | RlooConfig)
            else online
        )
    data = {"train": files["train"], **({"validation": files["validation"]} if files.get("validation") else {})}
    return checked_config({**known, "data": data})


def checked_config(data: dict[str, Any]) -> RunConfig:
    """The config that `data` stands for. Raises ConfigFailure."""
    try:
        return run_config_from_json(data)
    except InvalidConfig as invalid:
        raise as_failure(invalid) from None
