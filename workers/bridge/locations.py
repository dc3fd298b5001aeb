"""Where a policy's weights are, as run.json says it."""

import os
from pathlib import Path
from uuid import UUID

from django.conf import settings

from apps.policies.locations import HubModel, LocationRefused, model_source
from apps.policies.models import Policy
from trainer.failures import ConfigFailure


def model_path(policy: Policy, folder: Path, *, workspace_id: UUID, field: str = "model.path") -> str:
    """Where the weights of a policy are, as run.json in `folder` says it: a folder (relative where it is another run's), or a hub id.

    Raises ConfigFailure, which names `field`, where the workspace may not load it.
    """
    try:
        source = model_source(policy, workspace_id=workspace_id)
    except LocationRefused as refused:
        raise ConfigFailure(f"{field}: {refused}", advice="Choose another policy.") from None
    if isinstance(source, HubModel):
        return source.id
    return os.path.relpath(source, folder) if source.is_relative_to(settings.RUNS_DIR) else str(source)
