"""Forecasts how long a planned run will take and on what basis: similar earlier runs of this installation, or else arithmetic."""

from __future__ import annotations

from statistics import median

from apps.datasets.models import Split, Version
from apps.policies.models import Policy
from apps.training.pace import EarlierRun, ModelProfile, earlier_runs, paces_of
from contract.configs import FileTrainingConfig, OnlineConfig, TrainingConfig
from contract.configs.training import OptimizerConfig
from workers.bridge.capacity import Capacity
from workers.bridge.estimates import STEP_SECONDS, ModelShape, seconds_of
from workers.bridge.rollout_forecast import Forecast, from_paces, from_shape, unknown
from workers.bridge.row_lengths import chat_tokens
from workers.bridge.stopwatch import evaluations_in

MODEL_UNKNOWN = "the model hasn't been seen here yet"


def forecast_of(
    config: TrainingConfig,
    shape: ModelShape | None,
    capacity: Capacity | None,
    *,
    version: Version | None,
    base: Policy | None,
) -> Forecast:
    """The best available forecast."""
    if shape is None:
        return unknown(MODEL_UNKNOWN)
    profile = ModelProfile(shape.parameters, config.lora is not None, capacity.on_gpu if capacity else None)
    if isinstance(config, OnlineConfig) and base is not None:
        paces = paces_of(base.workspace, profile, environment=config.tasks.environment)
        if paces:
            return from_paces(config, paces)
    if isinstance(config, FileTrainingConfig) and version is not None:
        runs = earlier_runs(profile, algorithm=config.to_json()["kind"])
        if runs:
            return from_earlier_runs(config, shape, runs, version=version)
    if capacity is None:
        return unknown("no training worker has reported its capacity")
    if capacity.tflops is None:
        return unknown(f"the speed of the worker's device is unknown ({capacity.device})")
    if isinstance(config, OnlineConfig) and config.played_by == "runners":
        return unknown("how long your runners take for an episode isn't known yet")
    if isinstance(config, OnlineConfig):
        return from_shape(config, shape, capacity.tflops)
    if not isinstance(config, FileTrainingConfig) or version is None:
        return unknown("how much it learns from depends on which of its rollouts succeed")
    seconds = seconds_of(
        config,
        shape,
        rows=version.row_counts.get(Split.TRAIN.value, 0),
        validation_rows=version.row_counts.get(Split.VALIDATION.value, 0),
        row_tokens=chat_tokens(version, shape),
        tflops=capacity.tflops,
    )
    speed = (
        "the usual speed of its GPU"
        if capacity.on_gpu
        else "a probe of the worker's processor, assuming that nothing else uses it"
    )
    return Forecast(seconds, seconds, f"calculated from {speed}: there is no similar run here yet")


def from_earlier_runs(
    config: FileTrainingConfig, shape: ModelShape, earlier: list[EarlierRun], *, version: Version
) -> Forecast:
    """Scale the step times of earlier runs by the amount of tokens per step, except for the fixed overhead."""
    tokens = chat_tokens(version, shape)
    steps = config.steps(version.row_counts.get(Split.TRAIN.value, 0))
    evaluations = evaluations_of(config, version, steps)
    seconds = []
    for run in earlier:
        length_ratio = tokens / chat_tokens(run.version, shape)
        # Not read as a config, since an earlier release may have stored other settings.
        optimizer = OptimizerConfig().to_json() | run.config.get("optimizer", {})
        rows_ratio = config.rows_per_step / (optimizer["batch_size"] * optimizer["gradient_accumulation"])
        step = (
            min(run.step_seconds, STEP_SECONDS) + max(0.0, run.step_seconds - STEP_SECONDS) * length_ratio * rows_ratio
        )
        held_out_rows = run.version.row_counts.get(Split.VALIDATION.value, 0)
        held_out_ratio = version.row_counts.get(Split.VALIDATION.value, 0) / held_out_rows if held_out_rows else 0.0
        seconds.append(steps * step + evaluations * (run.evaluation_seconds or 0.0) * length_ratio * held_out_ratio)
    count = len(earlier)
    basis = f"from {count} earlier run{'s' if count > 1 else ''} here of this algorithm, size, and kind of worker"
    return Forecast(median(seconds), median(seconds), basis)


def evaluations_of(config: TrainingConfig, version: Version | None, steps: int) -> int:
    """Evaluations in the whole run, including the one before the first step."""
    return evaluations_in(steps, every=config.evaluate_every) if holds_out(config, version) else 0


def holds_out(config: TrainingConfig, version: Version | None) -> bool:
    """Whether there is held-out data."""
    if isinstance(config, FileTrainingConfig):
        return version is not None and bool(version.row_counts.get(Split.VALIDATION.value))
    return bool(getattr(config, "held_out", 0))
