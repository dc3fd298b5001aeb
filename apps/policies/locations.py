"""Where a policy's model is stored: with the run that made it, in a folder under MODEL_ROOTS, or on the hub.

The model of a local run is found through the run, never through a text field; the workers and the web share RUNS_DIR. A location that somebody entered is
checked at registration and again by the worker at each use, since the row may predate the current settings or may not have come from a form.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.conf import settings

from apps.policies.models import Policy
from contract.hub_ids import is_hub_id


class LocationRefused(Exception):
    """The location may not be loaded; the message says why."""


@dataclass(frozen=True)
class HubModel:
    """A model on the hub, which only the hub's client resolves."""

    id: str


def checked_location(location: str) -> str:
    """Normalizes a location that somebody entered. Doesn't touch the disk, since the web may run on another machine than the workers.

    Raises LocationRefused.
    """
    if is_hub_id(location):
        return location
    if not location.startswith("/"):
        raise LocationRefused(
            f"{location!r} is neither a hub id (such as Qwen/Qwen3-0.6B) nor an absolute folder. "
            "The model of a training run is in the list of policies once the run has finished."
        )
    if "\0" in location or ".." in location.split("/") or not _lies_in(Path(location), settings.MODEL_ROOTS):
        raise _outside(location)
    return os.path.normpath(location)


def refuse_unusable_location(policy: Policy) -> None:
    """The checks of a language model that the web can do before a worker takes the job. Raises LocationRefused."""
    if weights_of_run(policy) is None:
        checked_location(policy.location)


def model_source(policy: Policy, *, workspace_id: UUID) -> Path | HubModel:
    """What to load for `policy` on behalf of a workspace: an existing folder, or a hub model. Raises LocationRefused."""
    if policy.workspace_id != workspace_id:
        raise LocationRefused("The policy belongs to another workspace.")
    if weights := weights_of_run(policy):
        if not weights.model.is_dir():
            raise LocationRefused(
                f"The training run that made {policy} left no model, or its folder {weights.run} is gone."
            )
        return weights.model
    location = checked_location(policy.location)
    return _existing_folder(location) if location.startswith("/") else HubModel(location)


def _existing_folder(location: str) -> Path:
    """The folder with its symbolic links resolved; each of its files must also lie under MODEL_ROOTS.

    A location outside gets the same error whether it exists or not.
    """
    try:
        folder = Path(location).resolve()
        _refuse_outside(folder, location)
        if not folder.is_dir():
            raise LocationRefused(f"There is no folder {location}. Copy the model there, or correct the location.")
        for path in folder.rglob("*"):
            _refuse_outside(path.resolve(), location)
    except (OSError, RuntimeError):  # circular links, or a folder that this worker may not read
        raise LocationRefused(f"The folder {location} cannot be read. Check its permissions and links.") from None
    return folder


def _refuse_outside(path: Path, location: str) -> None:
    own_roots = (settings.RUNS_DIR, settings.PUBLISHED_DIR)
    if not _lies_in(path, [root.resolve() for root in settings.MODEL_ROOTS]):
        raise _outside(location)
    if _lies_in(path, [Path(folder).resolve() for folder in own_roots]):  # workspaces share these folders
        raise _outside(location)


def _lies_in(folder: Path, roots: list[Path]) -> bool:
    return any(folder.is_relative_to(root) for root in roots)


def _outside(location: str) -> LocationRefused:
    roots = ", ".join(map(str, settings.MODEL_ROOTS))
    offered = f"this installation offers models under {roots}" if roots else "this installation offers no folders"
    return LocationRefused(
        f"{location!r} cannot be used: {offered}, links included. Give the id of a model on the hub, choose the policy of a "
        "training run, or have the folder added to MODEL_ROOTS."
    )


@dataclass(frozen=True)
class Weights:
    """The files that a run left behind. The trainer defines the layout."""

    run: Path

    @property
    def model(self) -> Path:
        """Folder of the whole model."""
        return self.run / "model"

    @property
    def adapter(self) -> Path:
        """Folder of only the LoRA adapter; missing after full fine-tuning."""
        return self.run / "adapter"

    @property
    def canary(self) -> Path:
        """The file by which servers of the model are verified; without it, the policy can't be published on one."""
        return self.run / "canary.json"

    @property
    def has_adapter(self) -> bool:
        return (self.adapter / "adapter_config.json").is_file()

    @property
    def has_model(self) -> bool:
        return (self.model / "config.json").is_file()


def weights_of_run(policy: Policy) -> Weights | None:
    """The files of the run that made the policy; None if no run of its own workspace did. Ignores `location`."""
    run = getattr(policy, "made_by", None)
    if run is None or run.workspace_id != policy.workspace_id:
        return None
    return Weights(Path(settings.RUNS_DIR) / str(run.pk))


def weights_of(policy: Policy) -> Weights | None:
    """The files of the run that made the policy; None unless it's a language model, since only those can be published."""
    return weights_of_run(policy) if policy.kind == Policy.Kind.MODEL else None
