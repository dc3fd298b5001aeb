"""Launching a run: what is known here is checked before anything is stored; the rest is checked by a worker, before anything starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from apps.accounts import auditing
from apps.accounts.models import User, Workspace, subject_id
from apps.datasets.models import Split, Version
from apps.policies.locations import LocationRefused, refuse_unusable_location
from apps.policies.models import Policy
from apps.policies.weights import weights_of_run
from apps.training.claiming import queue
from apps.training.models import Run, RunEvent
from apps.training.recipes import RunSettings

ROWS_FOR = {
    Run.Algorithm.SFT: ("demonstrations", "preference"),
    Run.Algorithm.REWARD_MODEL: ("preference", "step_preferences"),
    Run.Algorithm.DPO: ("preference", "step_preferences"),
    Run.Algorithm.KTO: ("unpaired", "preference", "step_preferences"),
    Run.Algorithm.PROCESS_REWARD_MODEL: ("steps",),
}


USUAL: dict[str, str] = {
    "preference": Run.Algorithm.DPO,
    "step_preferences": Run.Algorithm.DPO,
    "demonstrations": Run.Algorithm.SFT,
    "unpaired": Run.Algorithm.KTO,
    "steps": Run.Algorithm.PROCESS_REWARD_MODEL,
}
"""What rows of each type are mostly frozen for."""


class LaunchRefused(Exception):
    """Why this run cannot start. `field` is what to change."""

    field = ""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field or self.field


class VersionMissing(LaunchRefused):
    """The algorithm learns from a dataset version."""

    field = "version"


class VersionUnused(LaunchRefused):
    """The algorithm learns from its own rollouts, and a version would say otherwise."""

    field = "version"


class RolloutsUneven(LaunchRefused):
    """The rollouts of a step do not make whole groups."""

    field = "samples"


class NotFrozen(LaunchRefused):
    """Only a frozen version can be trained on."""

    field = "version"


class WrongRows(LaunchRefused):
    """The version's rows are of a type that the algorithm cannot read."""

    field = "version"


class SplitEmpty(LaunchRefused):
    """The version has no training rows."""

    field = "version"


class DataTooSmall(LaunchRefused):
    """Fewer training rows than one optimizer step takes."""

    field = "version"


class BaseMissing(LaunchRefused):
    """The algorithm needs a model to begin from."""

    field = "base"


class NotTrainable(LaunchRefused):
    """The base has no weights that a run could change."""

    field = "base"


class FolderMissing(LaunchRefused):
    """The base's folder is not where runs keep their models."""

    field = "base"


@dataclass(frozen=True)
class Plan:
    """A run that does not exist yet."""

    workspace: Workspace
    name: str
    algorithm: str
    version: Version | None
    """None for what learns from its own rollouts."""
    base: Policy | None
    preset: str
    settings: RunSettings

    @property
    def config(self) -> dict[str, Any]:
        return self.settings.as_config(self.algorithm)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        rows = self.settings.tasks * self.settings.samples
        return self.settings.steps(self.version.row_counts[Split.TRAIN.value] if self.version else rows)

    def as_json(self) -> dict[str, Any]:
        """What a worker needs to check it; equal plans give equal JSON."""
        return {
            "workspace": str(self.workspace.pk),
            "algorithm": self.algorithm,
            "version": subject_id(self.version) or None,
            "base": subject_id(self.base) or None,
            "config": self.config,
        }


def check_plan(plan: Plan) -> None:
    """Everything that the database and the disk can tell. Raises LaunchRefused."""
    algorithm = Run.Algorithm(plan.algorithm)
    if algorithm in Run.ONLINE:
        _check_practice(plan, algorithm)
    elif plan.version is None:
        raise VersionMissing(f"{algorithm.label} learns from a dataset version. Choose one.")
    else:
        _check_version(plan.version, algorithm, plan.settings)
    _check_base(plan, algorithm)


def _check_practice(plan: Plan, algorithm: Run.Algorithm) -> None:
    if plan.version is not None:
        raise VersionUnused(f"{algorithm.label} learns from its own rollouts. Leave the dataset version out.")
    settings = plan.settings
    if algorithm != Run.Algorithm.STAR and settings.rows_a_step % settings.samples:
        raise RolloutsUneven(
            f"A step has {settings.rows_a_step} rollouts (batch size × accumulation), which {settings.samples} rollouts of "
            "each task do not divide. Change one of them."
        )


def _check_version(version: Version, algorithm: Run.Algorithm, settings: RunSettings) -> None:
    if version.state != Version.State.FROZEN:
        raise NotFrozen(f"{version} is {version.get_state_display().lower()}; wait until it is frozen.")
    if version.row_type not in ROWS_FOR[algorithm]:
        raise WrongRows(
            f"{algorithm.label} needs {' or '.join(ROWS_FOR[algorithm])} rows; {version} has {version.row_type} rows."
        )
    rows = version.row_counts.get(Split.TRAIN.value, 0)
    if not rows:
        raise SplitEmpty(
            f"{version} has no training rows. Freeze a version from more judgements, or with a larger training share."
        )
    if rows < settings.rows_a_step:
        raise DataTooSmall(
            f"{version} has {rows} training rows; one step takes {settings.rows_a_step} "
            f"(batch size × accumulation). Lower the batch size to {rows} or less, or freeze more judgements."
        )


def _check_base(plan: Plan, algorithm: Run.Algorithm) -> None:
    base = plan.base
    if base is None:
        if algorithm != Run.Algorithm.SFT:
            raise BaseMissing(
                f"{algorithm.label} starts from a model. Choose a base; only fine-tuning can make a new model."
            )
        return
    if base.kind != Policy.Kind.MODEL or base.archived_at is not None:
        raise NotTrainable(
            f"{base} is a {base.get_kind_display().lower()} without weights to train. Choose a language model."
        )
    if base.workspace_id != plan.workspace.pk:
        raise NotTrainable("The base belongs to another workspace. Choose one of this workspace.")
    try:
        refuse_unusable_location(base)
    except LocationRefused as refused:
        raise NotTrainable(str(refused)) from None
    weights = weights_of_run(base)
    if weights and not weights.model.is_dir():
        raise FolderMissing(f"The model of {base} ({weights.model}) is gone. Restore it, or choose another base.")


@transaction.atomic
def launch_run(*, plan: Plan, by: User) -> Run:
    """Queue the run that `plan` describes. Raises LaunchRefused."""
    check_plan(plan)
    run = Run.objects.create(
        workspace=plan.workspace,
        name=plan.name,
        algorithm=plan.algorithm,
        version=plan.version,
        base=plan.base,
        preset=plan.preset,
        config=plan.config,
        total_steps=plan.steps,
        created_by=by,
    )
    RunEvent.objects.create(run=run, kind="launched", text=f"Launched by {by}.")
    auditing.record(
        workspace=plan.workspace,
        actor=by,
        action="launched a run",
        subject=run.name,
        about=run,
        algorithm=plan.algorithm,
        version=str(plan.version or ""),
        settings=asdict(plan.settings),
    )
    queue(run)
    return run
