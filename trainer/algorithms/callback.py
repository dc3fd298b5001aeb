"""Turns callbacks of TRL's trainers into events and complete checkpoints, and stops the trainers when requested."""

import math
import os
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contract.configs import GrpoConfig, RlooConfig, TrainingConfig, config_hash
from contract.events import CheckpointSaved, Metrics, Progress, Started
from trainer.checkpoints import mark_complete, remove_old
from trainer.events import EventLog, memory_in_use_mb
from trainer.interruption import StoppedMidway, StopRequest

UNINTERESTING = {"epoch", "total_flos", "num_tokens", "train_runtime", "train_loss", "eval_model_preparation_time"}
"""What TRL logs besides metrics; tokens and tokens_per_second are derived from num_tokens."""
OUR_NAMES = {
    "accuracy": "rewards/accuracies",
    "margin": "rewards/margins",
    "mean_reward": "rewards/mean",
    "min_reward": "rewards/min",
    "max_reward": "rewards/max",
}
"""TRL's reward trainer names some metrics differently from its DPO trainer; these are unified here."""


class RunCallback(TrainerCallback):
    """Emits the events of one training run."""

    def __init__(self, config: TrainingConfig, folder: Path, events: EventLog, stop: StopRequest) -> None:
        self.config = config
        self.folder = folder
        self.events = events
        self.stop = stop
        self.last_checkpoint = ""
        """Relative to the run's folder; known to the first process only."""
        self.saved_step: int | None = None
        """The step of the newest complete checkpoint; known to every process."""
        self.stops_every = config.updates if isinstance(config, GrpoConfig | RlooConfig) else 1
        """In steps: a run can't be resumed between two updates on the same rollouts."""
        self._tokens = 0.0
        self._since = monotonic()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        model: PreTrainedModel = kwargs["model"]
        self.events.emit(
            Started(
                total_steps=state.max_steps,
                step=state.global_step,
                trainable_parameters=sum(
                    parameter.numel() for parameter in model.parameters() if parameter.requires_grad
                ),
                total_parameters=sum(parameter.numel() for parameter in model.parameters()),
                memory_mb=memory_mb(),
                device=str(args.device),
                pid=os.getpid(),
            )
        )
        # After a resume, TRL continues the count in GRPO and RLOO, and restarts at 0 otherwise.
        self._tokens, self._since = float(state.num_input_tokens_seen), monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.events.emit(Progress(step=state.global_step, total=state.max_steps))
        may_stop = state.global_step % self.stops_every == 0 and state.global_step < state.max_steps
        if may_stop and stop_everywhere(self.stop):
            control.should_evaluate = False
            control.should_save = True
            control.should_training_stop = True

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if stop_everywhere(self.stop):
            raise StoppedMidway  # an evaluation can take long

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        values = {
            metric_name(name): math.nan if value is None else float(value)  # TRL had nothing to average
            for name, value in (logs or {}).items()
            if name.removeprefix("eval_") not in UNINTERESTING
        }
        if not values or "train_runtime" in (logs or {}):
            return
        if not any(name.startswith("eval/") for name in values):
            values |= {"memory_mb": memory_mb(), "tokens_per_second": self._tokens_per_second(logs or {})}
            values |= self._clocks(state.global_step, logs or {})
        self.events.emit(Metrics(step=state.global_step, values=dict(values)))

    def _clocks(self, step: int, logs: dict[str, float]) -> dict[str, float]:
        """The amount of training so far, as x-axes for curves. A resumed run may restart its token count at 0."""
        clocks = {"tokens": float(logs["num_tokens"])} if "num_tokens" in logs else {}
        if isinstance(self.config, GrpoConfig | RlooConfig):
            optimizer = self.config.optimizer
            rollouts = optimizer.batch_size * optimizer.gradient_accumulation * processes()
            clocks["rollouts"] = float(rollouts * step // self.config.updates)
        return clocks

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.saved_step = state.global_step
        if not state.is_world_process_zero:
            return
        checkpoints = self.folder / "checkpoints"
        checkpoint = checkpoints / f"checkpoint-{state.global_step}"
        mark_complete(checkpoint, config_hash=config_hash(self.config))
        self.last_checkpoint = str(checkpoint.relative_to(self.folder))
        self.events.emit(CheckpointSaved(step=state.global_step, path=self.last_checkpoint))
        remove_old(checkpoints, keep=self.config.checkpoints.keep)

    def resume_from(self, checkpoint: Path, *, step: int) -> None:
        self.last_checkpoint, self.saved_step = str(checkpoint.relative_to(self.folder)), step

    def _tokens_per_second(self, logs: dict[str, float]) -> float:
        tokens, now = float(logs.get("num_tokens", 0.0)), monotonic()
        rate = (tokens - self._tokens) / max(1e-9, now - self._since)
        self._tokens, self._since = tokens, now
        return round(rate, 1)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._since = monotonic()  # don't count evaluation time in the training speed


def metric_name(name: str) -> str:
    """TRL's `eval_accuracy` -> `eval/rewards/accuracies`."""
    if name.startswith("eval_"):
        return "eval/" + metric_name(name.removeprefix("eval_"))
    return OUR_NAMES.get(name, name)


def memory_mb() -> float:
    """Resident memory of this process plus its accelerator memory."""
    on_gpu = torch.cuda.memory_allocated() / 1e6 if torch.cuda.is_available() else 0.0
    return round(memory_in_use_mb() + on_gpu, 1)


def processes() -> int:
    """Number of processes in the run."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def stop_everywhere(stop: StopRequest) -> bool:
    """Whether any process of the run was asked to stop: all must stop at the same step, or the others wait forever."""
    if not torch.distributed.is_initialized():
        return stop.requested
    stop_requested = torch.tensor(int(stop.requested), device="cuda" if torch.cuda.is_available() else "cpu")
    torch.distributed.all_reduce(stop_requested, op=torch.distributed.ReduceOp.MAX)
    return bool(stop_requested.item())
