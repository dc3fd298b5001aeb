"""The plan of a run: a preset with some settings changed, validated once against the algorithm's config and the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from apps.accounts.models import Membership, Workspace, subject_id
from apps.common.environments import ENVIRONMENTS
from apps.datasets.models import Split, Version
from apps.policies.locations import LocationRefused, refuse_unusable_location, weights_of_run
from apps.policies.models import Policy
from apps.training.models import Run
from apps.training.presets import METHODS, PRESETS
from apps.training.refusals import (
    BaseMissing,
    DataTooSmall,
    FolderMissing,
    NotFrozen,
    NotTrainable,
    SettingsRefused,
    SplitEmpty,
    UnknownChoice,
    VersionMissing,
    VersionUnused,
    WrongRows,
)
from apps.training.reward_terms import LearnedReward, learned_rewards
from apps.training.workspace_tasks import tasks_in, to_train_on, workspace_environments
from contract.configs import (
    TRAINING_CONFIGS,
    FileTrainingConfig,
    InvalidConfig,
    InvalidField,
    OnlineConfig,
    StarConfig,
    TrainingConfig,
)
from contract.configs.fields import fields_of

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
"""The default algorithm for each row type."""
GIVEN_BY_BASE = "the base policy has a shape of its own; leave the base out to make a new model"


@dataclass(frozen=True)
class Plan:
    """A validated run that hasn't been launched."""

    workspace: Workspace
    name: str
    algorithm: str
    version: Version | None
    """None if the algorithm learns from its own rollouts."""
    base: Policy | None
    """If unsaved, a model on the hub, which the launch registers."""
    preset: str
    config: TrainingConfig
    """Complete and validated. The paths of the model and the rows are filled in by the worker that takes the run."""
    rewards: tuple[LearnedReward, ...] = ()

    @property
    def stored(self) -> dict[str, Any]:
        """The config as stored with the run: without the fields that the worker fills in."""
        config = self.config.to_json()
        for name in ("kind", "model", "data"):
            config.pop(name, None)
        if self.base is None:
            config["model"] = {"scratch": self.config.to_json()["model"]["scratch"]}
        return config

    @property
    def hub_id(self) -> str:
        """The hub id of a base that isn't registered in this workspace yet; otherwise empty."""
        return self.base.location if self.base is not None and self.base._state.adding else ""

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        if self.version is not None:
            return self.config.steps(self.version.row_counts[Split.TRAIN.value])
        assert isinstance(self.config, OnlineConfig | StarConfig), "others learn from a version"
        return self.config.steps(self.config.tasks.count * self.config.samples)

    def as_json(self) -> dict[str, Any]:
        """What a worker needs to check the plan; equal plans give equal JSON."""
        return {
            "workspace": str(self.workspace.pk),
            "algorithm": self.algorithm,
            "version": subject_id(self.version) or None,
            "base": None if self.hub_id else subject_id(self.base) or None,
            "hub_base": self.hub_id,
            "config": self.stored,
        }


def plan_run(
    *,
    member: Membership,
    algorithm: str,
    version: Version | None,
    base: Policy | None,
    preset: str = "standard",
    method: str = "full",
    changes: Mapping[str, Any] | None = None,
    name: str = "",
) -> Plan:
    """Apply `changes`, a partial config, to a preset and validate the result. Raises LaunchRefused."""
    for field, choice, choices in (
        ("algorithm", algorithm, TRAINING_CONFIGS),
        ("preset", preset, PRESETS),
        ("method", method, METHODS),
    ):
        if choice not in choices:
            raise UnknownChoice(f"Got {choice!r}, expected one of {', '.join(choices)}.", field=field)
    kind = Run.Algorithm(algorithm)
    _check_version(version, kind)
    _check_base(base, kind, member.workspace)
    try:
        config = _config(
            kind, preset=preset, method=method, base=base, changes=changes or {}, workspace=member.workspace
        )
        rewards = learned_rewards(config, member)
    except InvalidConfig as invalid:
        raise SettingsRefused(invalid) from None
    _check_size(version, config)
    return Plan(
        workspace=member.workspace,
        name=name or default_name(kind, version, config),
        algorithm=algorithm,
        version=version,
        base=base,
        preset=preset,
        config=config,
        rewards=rewards,
    )


def preset_config(*, preset: str, algorithm: str, method: str, base: Policy | None) -> TrainingConfig:
    """The unchanged preset with all its defaults, which empty form fields stand for."""
    start = PRESETS[preset].config(algorithm=algorithm, method=method, parameters=parameters_of(base))
    return TRAINING_CONFIGS[algorithm].from_json({**start, **_placeholders(algorithm, base)})


def _config(
    algorithm: Run.Algorithm,
    *,
    preset: str,
    method: str,
    base: Policy | None,
    changes: Mapping[str, Any],
    workspace: Workspace,
) -> TrainingConfig:
    """The validated config. Raises InvalidConfig."""
    cls = TRAINING_CONFIGS[algorithm]
    changes = _with_default_alpha(changes)
    problems = _forbidden(cls, changes)
    if method == "full" and "lora" in changes:
        problems.append(
            InvalidField(
                "lora", "got adapters, but the run trains all weights", advice="Set the method to lora or qlora."
            )
        )
    if method != "full" and changes.get("lora", {}) is None:
        problems.append(
            InvalidField("lora", "got nothing, but the run trains adapters", advice="Set the method to full.")
        )
    if base is not None and "model" in changes:
        problems.append(InvalidField("model", GIVEN_BY_BASE))
    if problems:
        raise InvalidConfig(problems)
    start = PRESETS[preset].config(algorithm=algorithm, method=method, parameters=parameters_of(base))
    config = cls.from_json(merged(merged(start, _placeholders(algorithm, base)), changes))
    if problems := [
        *_forbidden_in_terms(config),
        *_environment_problems(config, workspace),
        *_tracker_problems(config),
    ]:
        raise InvalidConfig(problems)
    return config


def _placeholders(algorithm: str, base: Policy | None) -> dict[str, Any]:
    """Stand-ins for the fields that the worker fills in, as far as validation needs them."""
    model: dict[str, Any] = {"scratch": {}} if base is None and algorithm == Run.Algorithm.SFT else {"path": "base"}
    reads_rows = issubclass(TRAINING_CONFIGS[algorithm], FileTrainingConfig)
    return {"kind": algorithm, "model": model, **({"data": {"train": "train.jsonl"}} if reads_rows else {})}


def _with_default_alpha(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keeps an adapter's scale when only the rank is changed: alpha defaults to twice the rank."""
    lora = changes.get("lora")
    if not isinstance(lora, Mapping) or "alpha" in lora or not isinstance(rank := lora.get("rank"), int):
        return changes
    return {**changes, "lora": {**lora, "alpha": 2.0 * rank}} if 1 <= rank <= 1024 else changes


def _forbidden(cls: type[TrainingConfig], changes: Mapping[str, Any]) -> list[InvalidField]:
    """Errors for settings that only Retrace may write."""
    return [
        InvalidField(field.path, f"can't be set: {field.internal}")
        for field in fields_of(cls)
        if field.internal and _has(changes, field.path)
    ] + ([InvalidField("kind", "can't be set: it is the algorithm")] if "kind" in changes else [])


def _forbidden_in_terms(config: TrainingConfig) -> list[InvalidField]:
    """Errors for settings of reward terms that only Retrace may write: weights' paths and judges' addresses follow from the policy that a term names."""
    terms = config.rewards.terms if isinstance(config, OnlineConfig) else ()
    return [
        InvalidField(f"rewards.terms[{index}].{field.path}", f"can't be set: {field.internal}")
        for index, term in enumerate(terms)
        for field in fields_of(type(term))
        if field.internal and getattr(term, field.path) != field.default
    ]


def _has(changes: Any, path: str) -> bool:
    name, _, rest = path.partition(".")
    return isinstance(changes, Mapping) and name in changes and (not rest or _has(changes[name], rest))


def stored_config(run: Run, config: Mapping[str, Any]) -> TrainingConfig:
    """Rebuild the config from its stored form. Raises InvalidConfig."""
    return TRAINING_CONFIGS[run.algorithm].from_json({**_placeholders(run.algorithm, run.base), **config})


def merged(start: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` merged recursively into `start`; lists are replaced."""
    config = dict(start)
    for name, value in changes.items():
        current = config.get(name)
        config[name] = merged(current, value) if isinstance(current, Mapping) and isinstance(value, Mapping) else value
    return config


def _environment_problems(config: TrainingConfig, workspace: Workspace) -> list[InvalidField]:
    """Errors for environments that this installation doesn't have."""
    if not isinstance(config, OnlineConfig | StarConfig):
        return []
    tasks = config.tasks
    if tasks.environment not in ENVIRONMENTS:
        if isinstance(config, OnlineConfig) and config.played_by == "runners":
            return _own_task_problems(config, workspace)
        choices = " or ".join(map(repr, ENVIRONMENTS))
        is_own = tasks_in(workspace.pk, tasks.environment).exists() and isinstance(config, OnlineConfig)
        advice = "It is one of your own: set played_by to runners." if is_own else ""
        return [InvalidField("tasks.environment", f"got {tasks.environment!r}, expected {choices}", advice=advice)]
    levels = ENVIRONMENTS[tasks.environment].levels
    return [
        InvalidField(f"tasks.levels[{index}]", f"got {level!r}, expected {' or '.join(map(repr, levels))}")
        for index, level in enumerate(tasks.levels)
        if levels and level not in levels
    ]


def _tracker_problems(config: TrainingConfig) -> list[InvalidField]:
    """Errors for a tracker that this installation doesn't have."""
    if config.tracker in available_trackers():
        return []
    choices = " or ".join(map(repr, available_trackers()))
    advice = "The operator of this installation lists its trackers in TRACKERS."
    return [InvalidField("tracker", f"got {config.tracker!r}, expected {choices}", advice=advice)]


def available_trackers() -> list[str]:
    """The trackers that runs on this installation can report to."""
    return ["none", *(name for name in settings.TRACKERS if name != "none")]


def _own_task_problems(config: OnlineConfig, workspace: Workspace) -> list[InvalidField]:
    """Errors if the workspace has too few tasks of a runners' environment."""
    tasks = config.tasks
    environments = [name for name, _ in workspace_environments(workspace.pk)]
    if tasks.environment not in environments:
        expected = " or ".join(map(repr, environments[:5])) or "an environment that tasks of your trajectories name"
        return [InvalidField("tasks.environment", f"got {tasks.environment!r}, expected {expected}")]
    available = to_train_on(tasks_in(workspace.pk, tasks.environment, tasks.levels)).count()
    available, needed = min(available, tasks.count), config.rows_per_step // config.samples
    if available >= needed:
        return []
    problem = f"the workspace has {available} training tasks of {tasks.environment!r}; one step takes {needed}"
    advice = "Record or import attempts at more tasks, or lower the batch size."
    return [InvalidField("tasks.environment", problem, advice=advice)]


def _check_version(version: Version | None, algorithm: Run.Algorithm) -> None:
    if algorithm in Run.ONLINE:
        if version is not None:
            raise VersionUnused(f"{algorithm.label} learns from its own rollouts. Leave the dataset version out.")
        return
    if version is None:
        raise VersionMissing(f"{algorithm.label} learns from a dataset version. Choose one.")
    if version.state != Version.State.FROZEN:
        raise NotFrozen(f"{version} is {version.get_state_display().lower()}; wait until it is frozen.")
    if version.row_type not in ROWS_FOR[algorithm]:
        raise WrongRows(
            f"{algorithm.label} needs {' or '.join(ROWS_FOR[algorithm])} rows; {version} has {version.row_type} rows."
        )
    if not version.row_counts.get(Split.TRAIN.value, 0):
        raise SplitEmpty(
            f"{version} has no training rows. Freeze a version from more judgments, or with a larger training share."
        )


def _check_size(version: Version | None, config: TrainingConfig) -> None:
    if version is None:
        return
    rows = version.row_counts[Split.TRAIN.value]
    if rows < config.rows_per_step:
        raise DataTooSmall(
            f"{version} has {rows} training rows; one step takes {config.rows_per_step} "
            f"(batch size × accumulation). Lower the batch size to {rows} or less, or freeze more judgments."
        )


def _check_base(base: Policy | None, algorithm: Run.Algorithm, workspace: Workspace) -> None:
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
    if base.workspace_id != workspace.pk:
        raise NotTrainable("The base belongs to another workspace. Choose one of this workspace.")
    try:
        refuse_unusable_location(base)
    except LocationRefused as refused:
        raise NotTrainable(str(refused)) from None
    weights = weights_of_run(base)
    if weights and not weights.model.is_dir():
        raise FolderMissing(f"The model of {base} ({weights.model}) is gone. Restore it, or choose another base.")


def parameters_of(base: Policy | None) -> int | None:
    """The base's number of parameters if known. A new model is small."""
    if base is None:
        return 0
    parameters: int | None = base.settings.get("parameters")
    return parameters


def default_name(algorithm: Run.Algorithm, version: Version | None, config: TrainingConfig) -> str:
    """The name of a run that wasn't given one."""
    environment = config.tasks.environment if isinstance(config, OnlineConfig | StarConfig) else ""
    return f"{algorithm.label} {f'on {version}' if version else f'in {environment}'}"[:180]
