"""Checks before a run starts: does the model exist, are the settings valid, does it fit?"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from apps.accounts.models import Workspace
from apps.common.quantities import size
from apps.datasets.models import Split, Version
from apps.datasets.rule_names import CHOICES, NAMES
from apps.policies.models import Policy
from apps.policies.registration import hub_base
from apps.training.folders import RunFolder
from apps.training.launch import Check, Refusal
from contract.configs import ModelConfig, TrainingConfig
from contract.hub_ids import is_hub_id
from trainer.failures import ConfigFailure, OutOfMemory, RunFailure
from workers.bridge.capacity import Capacity, largest_capacity, local_capacity
from workers.bridge.configs import config_from
from workers.bridge.estimates import (
    Estimate,
    ModelShape,
    NotOnHub,
    Unreadable,
    estimate,
    shape_of_folder,
    shape_of_hub,
    shape_of_scratch,
)
from workers.bridge.forecasts import MODEL_UNKNOWN, forecast_of
from workers.bridge.rollout_forecast import Forecast, unknown

BYTES_PER_TOKEN = 3.0
"""Characters per token of JSON in English and code: low, so that row lengths are overestimated rather than underestimated."""
DEFAULT_ROW_TOKENS = 512
TIGHT_SHARE = 0.85
MANY_FAILED_PAIRS = 0.1
"""Share of a version's rows. The bar on its page has a mark there."""
SETTING_PATH = re.compile(r"[a-z_]+(\[\d+\])?(\.[a-z_]+(\[\d+\])?)*")


def check(plan: dict[str, Any]) -> Check:
    """The answer to a plan of `apps.training.launch`, for the page."""
    version = Version.objects.get(pk=plan["version"]) if plan["version"] else None
    base = _base_of(plan)
    counts = version.row_counts if version else {}
    files = {split.value: f"{split.value}.jsonl" for split in Split if counts.get(split.value)}
    folder = RunFolder(Path(settings.RUNS_DIR) / "RUN")
    notes: list[str] = []
    try:
        config = config_from(
            algorithm=plan["algorithm"],
            base=base,
            workspace_id=UUID(plan["workspace"]),
            config=plan["config"],
            files=dict(files),
            folder=folder.path,
        )
        assert isinstance(config, TrainingConfig), "plans are for training"
        shape = model_shape(config.model, folder.path, notes)
    except RunFailure as failure:
        return Check("refused", refusals=[refusal_of(failure)])
    capacity = largest_capacity()
    if capacity is None:
        notes.append(
            "No training worker has reported its capacity, so whether the run fits is checked when a worker takes it."
        )
    requirements = _requirements(config, shape, capacity, _row_tokens(version)) if shape else None
    refusals = _refusals(requirements, capacity, folder) if requirements else []
    forecast = forecast_of(config, shape, capacity, version=version, base=base)
    if config.lora and config.lora.quantized and capacity and not capacity.on_gpu:
        message = (
            f"QLoRA needs an NVIDIA GPU, and the training worker has none ({capacity.device}). LoRA runs everywhere."
        )
        refusals.append(Refusal("method", message))
    if config.optimizer.precision == "auto" and capacity and capacity.on_gpu and not capacity.has_bf16:
        notes.append(
            f"The worker's GPU ({capacity.device}) doesn't support bfloat16 natively, so it computes in float32."
        )
    if requirements and capacity and not refusals and requirements.memory_mb > TIGHT_SHARE * capacity.memory_mb:
        notes.append("It will be tight: the estimate is close to what the worker has.")
    if note := _failed_pairs_note(version):
        notes.append(note)
    return Check(
        state="refused" if refusals else "passed",
        refusals=refusals,
        notes=notes,
        parameters=shape.parameters if shape else None,
        memory_mb=requirements.memory_mb if requirements else None,
        capacity_mb=capacity.memory_mb if capacity else None,
        device=capacity.device if capacity else "",
        disk_mb=requirements.disk_mb if requirements else None,
        seconds_low=forecast.low,
        seconds_high=forecast.high,
        time_words=forecast.basis,
        run_json=json.dumps(config.to_json(), indent=2),
    )


def _failed_pairs_note(version: Version | None) -> str | None:
    failed = version.card.get("failed_pairs") if version else None
    if not failed or (failed["share"] or 0.0) < MANY_FAILED_PAIRS:
        return None
    return (
        f"In {failed['count']:,} of {failed['of']:,} rows, both trajectories failed. A policy may learn from them to fail sooner. "
        f"To freeze a version without them, set “{NAMES['failed_pairs']}” to “{CHOICES['failed_pairs']['leave_out']}”."
    )


def _base_of(plan: dict[str, Any]) -> Policy | None:
    """A hub model that isn't registered in the workspace yet is registered by the launch."""
    if hub_id := plan.get("hub_base"):
        workspace = Workspace.objects.get(pk=plan["workspace"])
        return hub_base(workspace=workspace, hub_id=hub_id)
    return Policy.objects.get(pk=plan["base"]) if plan["base"] else None


def check_feasibility(
    config: TrainingConfig, folder: RunFolder, *, version: Version | None, base: Policy | None
) -> Forecast:
    """Check a claimed run against this worker's actual capacity; returns the forecast. Raises RunFailure before anything starts."""
    shape = model_shape(config.model, folder.path, [])
    capacity = local_capacity()
    if shape is None:
        return unknown(MODEL_UNKNOWN)
    requirements = _requirements(config, shape, capacity, _row_tokens(version))
    for refusal in _refusals(requirements, capacity, folder):
        message = f"{refusal.message} Nothing was started."
        if refusal.field == "optimizer.batch_size":
            raise OutOfMemory(message, advice="Launch it again with smaller settings.")
        raise RunFailure(message, advice="Once there is space, resume it.")
    return forecast_of(config, shape, capacity, version=version, base=base)


def model_shape(model: ModelConfig, folder: Path, notes: list[str]) -> ModelShape | None:
    """The shape of the base model; None (and a note) if only the worker that loads it can tell. Raises ConfigFailure."""
    if model.scratch is not None:
        return shape_of_scratch(model.scratch)
    try:
        if not is_hub_id(model.path):
            return shape_of_folder(Path(os.path.normpath(folder / model.path)))  # the run's folder may not exist yet
        shape = shape_of_hub(model.path, model.revision)
    except (Unreadable, NotOnHub) as error:
        raise ConfigFailure(f"model.path: {error}.", advice="Choose another base, or repair this one.") from None
    if shape is None:
        notes.append(f"The hub cannot be reached from here, so {model.path} is looked up when a worker loads it.")
    return shape


def _requirements(config: TrainingConfig, shape: ModelShape, capacity: Capacity | None, row_tokens: int) -> Estimate:
    return estimate(config, shape, row_tokens=row_tokens, has_bf16=bool(capacity and capacity.has_bf16))


def _refusals(requirements: Estimate, capacity: Capacity | None, folder: RunFolder) -> list[Refusal]:
    refusals = []
    if capacity and requirements.memory_mb > capacity.memory_mb:
        refusals.append(
            Refusal(
                "optimizer.batch_size",
                f"It does not fit: it needs about {size(requirements.memory_mb * 1e6)}, and the training worker ({capacity.device}) "
                f"has {size(capacity.memory_mb * 1e6)}. Lower the batch size or the longest row, or use LoRA.",
            )
        )
    needed = requirements.disk_mb * 1e6 - folder.model_bytes()
    if needed > folder.free_bytes():
        refusals.append(
            Refusal(
                "",
                f"The disk for runs has {size(folder.free_bytes())} left; checkpoints and the model take about "
                f"{size(needed)}. Free some space first.",
            )
        )
    return refusals


def _row_tokens(version: Version | None) -> int:
    """Typical length of a training row, from the size of the file."""
    if version is None:
        return DEFAULT_ROW_TOKENS
    file_record = version.files.get("jsonl", {}).get(Split.TRAIN.value)
    if not file_record or not file_record.get("rows"):
        return DEFAULT_ROW_TOKENS
    return max(1, int(file_record["bytes"] / file_record["rows"] / BYTES_PER_TOKEN))


def refusal_of(failure: RunFailure) -> Refusal:
    """What to change: the base, or the dotted path of the setting that prefixes the failure's message."""
    path, _, message = failure.message.partition(": ")
    if not SETTING_PATH.fullmatch(path):
        return Refusal("", f"{failure.message} {failure.advice}".strip())
    field = "base" if path.startswith("model") else path
    return Refusal(field, f"{message[:1].upper()}{message[1:]} {failure.advice}".strip())
