"""Where the model of a policy lies: with the run that made it, in a folder under MODEL_ROOTS, or on the hub.

What a run here made is reached through the run, never through text; the workers and the web share RUNS_DIR. A location that somebody typed is checked when it is
registered and, by the worker, each time that it is used: the row may be older than the settings, or may not have come through a form.
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
    """Nothing may be loaded from there, and why."""


@dataclass(frozen=True)
class HubModel:
    """A model on the hub, which only the hub's client resolves."""

    id: str


def checked_location(location: str) -> str:
    """The location that somebody typed, in its one spelling. Looks at no disk: the web may run on another machine than the workers.

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
    """What the web can tell of a language model before a worker takes the job. Raises LocationRefused."""
    if weights_of_run(policy) is None:
        checked_location(policy.location)


def model_source(policy: Policy, *, workspace_id: UUID) -> Path | HubModel:
    """What is loaded for `policy` on behalf of a workspace: an existing folder, or a hub model. Raises LocationRefused."""
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
    """The folder with its symbolic links resolved; each of its files must lie under MODEL_ROOTS as well.

    What lies outside is refused in the same words whether it exists or not.
    """
    try:
        place = Path(location).resolve()
        _refuse_outside(place, location)
        if not place.is_dir():
            raise LocationRefused(f"There is no folder {location}. Copy the model there, or correct the location.")
        for path in place.rglob("*"):
            _refuse_outside(path.resolve(), location)
    except (OSError, RuntimeError):  # links in a circle, or a folder that this worker may not read
        raise LocationRefused(f"The folder {location} cannot be read. Check its permissions and links.") from None
    return place


def _refuse_outside(place: Path, location: str) -> None:
    ours = (settings.RUNS_DIR, settings.PUBLISHED_DIR)
    if not _lies_in(place, [root.resolve() for root in settings.MODEL_ROOTS]):
        raise _outside(location)
    if _lies_in(place, [Path(folder).resolve() for folder in ours]):  # roots may hold them; workspaces share them
        raise _outside(location)


def _lies_in(place: Path, roots: list[Path]) -> bool:
    return any(place.is_relative_to(root) for root in roots)


def _outside(location: str) -> LocationRefused:
    roots = ", ".join(map(str, settings.MODEL_ROOTS))
    offered = f"this installation offers models under {roots}" if roots else "this installation offers no folders"
    return LocationRefused(
        f"{location!r} cannot be used: {offered}, links included. Give the id of a model on the hub, choose the policy of a "
        "training run, or have the folder added to MODEL_ROOTS."
    )


@dataclass(frozen=True)
class Weights:
    """What its run left behind. The layout is the trainer's."""

    run: Path

    @property
    def model(self) -> Path:
        """The whole model."""
        return self.run / "model"

    @property
    def adapter(self) -> Path:
        """The LoRA adapter alone; there is none after full fine-tuning."""
        return self.run / "adapter"

    @property
    def has_adapter(self) -> bool:
        return (self.adapter / "adapter_config.json").is_file()

    @property
    def has_model(self) -> bool:
        return (self.model / "config.json").is_file()


def weights_of_run(policy: Policy) -> Weights | None:
    """The files of the run that made the policy; None where no run of its own workspace did. `location` has no say in it."""
    run = getattr(policy, "made_by", None)
    if run is None or run.workspace_id != policy.workspace_id:
        return None
    return Weights(Path(settings.RUNS_DIR) / str(run.pk))


def weights_of(policy: Policy) -> Weights | None:
    """The same for what can be published: language models."""
    return weights_of_run(policy) if policy.kind == Policy.Kind.MODEL else None
