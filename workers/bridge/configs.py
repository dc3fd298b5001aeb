"""Builds the trainer's configs from rows, resolving the paths of weights and the URLs of judges each time a run is claimed."""

import os
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from apps.policies.aliases import served
from apps.policies.locations import HubModel, LocationRefused, model_source
from apps.policies.models import Policy
from apps.training.folders import folder_of
from apps.training.models import Run
from apps.training.plan import available_trackers
from contract.configs import GrpoConfig, InvalidConfig, RlooConfig, RunConfig, run_config_from_json
from contract.configs.paths import at
from contract.configs.references import Online, with_terms
from contract.configs.rewards import JudgeTerm, LearnedOutcomeTerm, LearnedProcessTerm, RewardTerm
from trainer.failures import ConfigFailure, as_failure

FILES = ("tasks.file", "held_out_file")
"""Settings that name files, which only the worker itself may fill in."""


def training_config(run: Run, *, files: dict[str, str | None]) -> RunConfig:
    """The run.json of `run`. `files` maps each split to its data file. Raises ConfigFailure."""
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
    """The run.json of a run that may not exist yet. Raises ConfigFailure."""
    shape = config.get("model", {}).get("scratch", {})
    model: dict[str, Any] = (
        {"scratch": shape} if base is None else {"path": model_path(base, folder, workspace_id=workspace_id)}
    )
    if (tracker := config.get("tracker", "none")) not in available_trackers():
        raise ConfigFailure(
            f"tracker: this installation's worker doesn't report to {tracker}.",
            advice="Set TRACKERS in its environment, or launch the run without a tracker.",
        )
    # Only the worker says which files are learned from: a run without a version has none, whatever its row says.
    fields = {**config, "kind": algorithm, "model": model}
    fields.pop("data", None)
    if not files:  # learns from its own rollouts
        online = stored_config(fields)
        return (
            with_policy_locations(online, folder, workspace_id=workspace_id)
            if isinstance(online, GrpoConfig | RlooConfig)
            else online
        )
    data = {"train": files["train"], **({"validation": files["validation"]} if files.get("validation") else {})}
    return stored_config({**fields, "data": data})


def stored_config(data: dict[str, Any]) -> RunConfig:
    """Build a config from `data`, part of which is from the database. Raises ConfigFailure.

    A row may not have come from a form, and a file that it named would be read with the worker's rights.
    """
    config = checked_config(data)
    for path in FILES:
        if at(config, path) is not None:
            raise ConfigFailure(
                f"{path}: a stored config can't name a file of the worker.", advice="Start a new one instead."
            )
    return config


def checked_config(data: dict[str, Any]) -> RunConfig:
    """Build a config from `data`. Raises ConfigFailure."""
    try:
        return run_config_from_json(data)
    except InvalidConfig as invalid:
        raise as_failure(invalid) from None


def with_policy_locations(config: Online, folder: Path, *, workspace_id: UUID) -> Online:
    """`config` with the path or URL of each policy in its reward terms filled in. Raises ConfigFailure."""
    return with_terms(
        config,
        [
            _with_location(term, f"rewards.terms[{index}].policy", folder, workspace_id)
            for index, term in enumerate(config.rewards.terms)
        ],
    )


def _with_location(term: RewardTerm, field: str, folder: Path, workspace_id: UUID) -> RewardTerm:
    """A location in the stored term is ignored: it's derived from the policy."""
    match term:
        case LearnedOutcomeTerm(policy=policy_id) | LearnedProcessTerm(policy=policy_id):
            policy = _policy(policy_id, field, workspace_id)
            return term.replaced(path=model_path(policy, folder, workspace_id=workspace_id, field=field))
        case JudgeTerm(policy=policy_id):
            policy = _policy(policy_id, field, workspace_id)
            judge = served(policy)
            if judge is None:
                raise ConfigFailure(
                    f"{field}: {policy} is no longer on any server, so it can't judge.",
                    advice="Publish it to an endpoint and resume the run, or launch one with another judge.",
                )
            endpoint = judge.endpoint
            return term.replaced(url=endpoint.base_url, model=judge.name, api_key_variable=endpoint.key_variable)
        case _:
            return term


def _policy(policy_id: str, field: str, workspace_id: UUID) -> Policy:
    if not policy_id:
        raise ConfigFailure(f"{field}: the term names no policy.", advice="Choose one of the workspace.")
    policy = Policy.objects.filter(workspace=workspace_id, pk=policy_id).first()
    if policy is None:
        raise ConfigFailure(f"{field}: there is no policy {policy_id} in this workspace.", advice="Choose another one.")
    return policy


def model_path(policy: Policy, folder: Path, *, workspace_id: UUID, field: str = "model.path") -> str:
    """The location of a policy's weights for run.json in `folder`: a folder (relative if it's another run's), or a hub id.

    Raises ConfigFailure, which names `field`, if the workspace may not load it.
    """
    try:
        source = model_source(policy, workspace_id=workspace_id)
    except LocationRefused as refused:
        raise ConfigFailure(f"{field}: {refused}", advice="Choose another policy.") from None
    if isinstance(source, HubModel):
        return source.id
    return os.path.relpath(source, folder) if source.is_relative_to(settings.RUNS_DIR) else str(source)
