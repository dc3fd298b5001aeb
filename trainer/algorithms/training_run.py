"""The common part of every training run around TRL: resume, train, stop, publish, report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import torch
from peft import PeftModel
from transformers import (
    GenerationConfig,
    IntervalStrategy,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    TrainerState,
)

from contract.configs import FileTrainingConfig, TrainingConfig, config_hash
from contract.events import Log, Warned
from contract.messages import Message
from trainer.algorithms.alarm_monitor import WatchCallback
from trainer.algorithms.atomic_folder import AtomicFolder
from trainer.algorithms.callback import RunCallback, metric_name
from trainer.algorithms.canary_probes import Probing, can_probe
from trainer.algorithms.learning_rate import RateOfConfig
from trainer.algorithms.tracker import tracker_callback
from trainer.canary import MIN_DISTANCE, write_canary
from trainer.checkpoints import made_by, newest_complete, remove_old, remove_unfinished
from trainer.events import EventLog
from trainer.failures import Cancelled, DataFailure
from trainer.interruption import StoppedMidway, StopRequest
from trainer.models.loader import compute_dtype, merge_into_whole, quantization
from trainer.rendering.chat import turn_ends, writes_reasoning
from trainer.rendering.refusals import Refusals

Row = TypeVar("Row")
Result = TypeVar("Result")


class Fitting(NamedTuple, Generic[Row]):
    """The rows of a file that fit max_length."""

    rows: list[Row]
    too_long: int
    """Left out."""
    shortest: int
    """Length of the shortest row in tokens, to suggest a max_length."""


class TrainingRun:
    """One run: its configuration, folder, and event log."""

    def __init__(self, config: TrainingConfig, folder: Path, events: EventLog, stop: StopRequest) -> None:
        self.config = config
        self.folder = folder
        self.events = events
        self.stop = stop
        self.callback = RunCallback(config, folder, events, stop)
        self.dtype = compute_dtype(config.optimizer.precision)
        self._probing: Probing | None = None
        self.refused = 0
        """Rows skipped because the chat template refuses them."""

    def log(self, message: str) -> None:
        """Log a message; also stops here if requested, since there is nothing to save yet."""
        self.events.emit(Log(message))
        if self.stop.requested:
            raise Cancelled

    def weights_dtype(self) -> torch.dtype:
        """Trained weights stay in float32; with LoRA, frozen ones may have lower precision."""
        return self.dtype if self.config.lora else torch.float32

    def loading(self) -> dict[str, Any]:
        """Loading options of the trained model besides its dtype. Raises ConfigFailure."""
        return quantization(self.config.lora, self.dtype)

    def rendered(self, rows: Sequence[Row], render: Callable[[Row], Result], name: str) -> list[Result]:
        """The rendered rows of a file, without those that the chat template refuses, which are reported. Raises DataFailure."""
        refusals = Refusals(name)
        results = list(refusals.rendered(rows, render))
        if warning := refusals.warning(of=len(rows)):
            self.events.emit(warning)
        self.refused += len(refusals.refused)
        return results

    def warn_of_lost_reasoning(
        self, tokenizer: PreTrainedTokenizerBase, completions: Sequence[Sequence[Message]], name: str
    ) -> None:
        """Warn if rows contain reasoning but the chat template drops it. completions: the messages with loss of each row."""
        thoughtful = sum(any(message.get("reasoning_content") for message in completion) for completion in completions)
        if thoughtful and not writes_reasoning(tokenizer):
            self.events.emit(
                Warned(
                    f"{name}: {thoughtful} of {len(completions)} rows hold reasoning, which the model's chat template leaves out. "
                    "They are learned from without it.",
                    advice="Choose a model whose template writes reasoning to learn from it.",
                )
            )

    def fitting(self, rows: Sequence[Row], lengths: Sequence[int], name: str) -> "Fitting[Row]":
        """The rows that fit `max_length`; reports how many didn't."""
        limit = self.config.optimizer.max_length
        fitting_rows = [row for row, length in zip(rows, lengths, strict=True) if length <= limit]
        if too_long := len(rows) - len(fitting_rows):
            self.events.emit(
                Warned(
                    f"{name}: left out {too_long} rows longer than {limit} tokens.",
                    advice="Raise optimizer.max_length to use them.",
                )
            )
        return Fitting(fitting_rows, too_long, min(lengths, default=0))

    def check_enough(self, usable: int, *, left_out: str, shortest: int) -> None:
        """Raises DataFailure if there are too few rows for one optimizer step."""
        assert isinstance(self.config, FileTrainingConfig)
        optimizer = self.config.optimizer
        needed = optimizer.batch_size * optimizer.gradient_accumulation
        if usable >= needed:
            return
        advice = f"Freeze a version with more judgments, or lower optimizer.batch_size to {max(1, usable)} or less."
        if shortest > optimizer.max_length:
            advice = f"Every row is longer than optimizer.max_length = {optimizer.max_length}; the shortest has {shortest} tokens."
        raise DataFailure(
            f"{self.config.data.train} has {usable} usable rows{left_out}. Expected at least {needed} "
            "(optimizer.batch_size × gradient_accumulation), enough for one step.",
            advice=advice,
        )

    def train(self, trainer: Trainer) -> None:
        """Train to the end, from the newest complete checkpoint if there is one. Raises Cancelled."""
        trainer.remove_callback(PrinterCallback)  # reported through events instead
        trainer.add_callback(WatchCallback(self.config, self.events, self.stop))
        trainer.add_callback(RateOfConfig())
        if reporting := tracker_callback(self.config.tracker, self.folder, trainer.args, self.events):
            trainer.add_callback(reporting)
        train_in_float32(trainer.model)
        checkpoints = self.folder / "checkpoints"
        if not self.config.resume and trainer.is_world_process_zero():
            remove_old(checkpoints, keep=0)  # otherwise they would count as newer than those of this attempt
        checkpoint = newest_complete(checkpoints) if self.config.resume else None
        try:
            self._probing = Probing(trainer) if can_probe(trainer) else None
        except StoppedMidway:
            raise Cancelled(str(checkpoint.relative_to(self.folder)) if checkpoint else "") from None
        if checkpoint is not None:
            self._announce_resume(checkpoint)
            state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
            trainer.args.eval_on_start = self._owes_evaluation(trainer, state)
            self.callback.resume_from(checkpoint, step=state.global_step)
            if state.global_step >= trainer.args.max_steps:
                self._finish(trainer, checkpoint, state)
                return
        try:
            self._train_until_stopped(trainer, checkpoint)
        except Exception:
            if trainer.is_world_process_zero():
                remove_unfinished(checkpoints)  # if the disk is full, make room to report it
            raise

    def _train_until_stopped(self, trainer: Trainer, checkpoint: Path | None) -> None:
        """Raises Cancelled."""
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except StoppedMidway:
            if self.callback.saved_step != trainer.state.global_step:  # a complete checkpoint is never overwritten
                trainer._save_checkpoint(cast("PreTrainedModel", trainer.model), trial=None)
                self.callback.on_save(trainer.args, trainer.state, trainer.control)
            raise Cancelled(self.callback.last_checkpoint) from None
        if trainer.state.global_step < trainer.args.max_steps:
            raise Cancelled(self.callback.last_checkpoint)

    def _owes_evaluation(self, trainer: Trainer, state: TrainerState) -> bool:
        """Whether the run was stopped when an evaluation was due, before or during it."""
        every = trainer.args.eval_steps
        is_due = trainer.args.eval_strategy != IntervalStrategy.NO and every and state.global_step % every == 0
        return bool(is_due) and not evaluated_at(state, step=state.global_step)

    def _finish(self, trainer: Trainer, checkpoint: Path, state: TrainerState) -> None:
        """Nothing is left to train: run the last evaluation if that was interrupted. Raises Cancelled."""
        trainer._load_from_checkpoint(str(checkpoint))
        trainer.state = state
        if trainer.args.eval_strategy == IntervalStrategy.NO or evaluated_at(state, step=state.global_step):
            return
        try:
            trainer.evaluate()
        except StoppedMidway:
            raise Cancelled(str(checkpoint.relative_to(self.folder))) from None

    def _announce_resume(self, checkpoint: Path) -> None:
        self.events.emit(Log(f"Resuming from {checkpoint.relative_to(self.folder)}"))
        if made_by(checkpoint) != config_hash(self.config):
            self.events.emit(
                Warned(
                    f"{checkpoint.name} was saved under another configuration than this one.",
                    advice="It continues under this one. Set resume to false to start over, or restore the old run.json.",
                )
            )

    def publish(self, trainer: Trainer, tokenizer: PreTrainedTokenizerBase) -> None:
        """Write `model/` atomically; with LoRA, the merged weights, and the adapter alone in `adapter/`.

        `canary.json` next to them lets Retrace verify that a server serves these weights.
        """
        if not trainer.is_world_process_zero():
            return
        self.events.emit(Log("Saving the model"))
        model: Any = trainer.accelerator.unwrap_model(trainer.model)
        canary = self._probing.end(model) if self._probing else None
        if isinstance(model, PeftModel):
            with AtomicFolder(self.folder / "adapter") as adapter:
                model.save_pretrained(str(adapter))
                tokenizer.save_pretrained(adapter)
            if self.config.lora and self.config.lora.quantized:
                model = merge_into_whole(model, self.folder / "adapter", self.config.model, self.folder, self.dtype)
                canary = self._probing.end_merged(canary, model) if self._probing and canary else None
            else:
                model = model.merge_and_unload()
        if canary is not None:
            write_canary(canary, self.folder)
            self._warn_of_small_change(canary.apart)
        if model.can_generate():
            stop_at_turns(model.generation_config, tokenizer)
        with AtomicFolder(self.folder / "model") as folder:
            model.to(self.dtype).save_pretrained(folder)
            tokenizer.save_pretrained(folder)

    def _warn_of_small_change(self, apart: float) -> None:
        if apart < MIN_DISTANCE:
            self.events.emit(
                Warned(
                    f"Training moved the model by {apart:.2g} nats a token: no server can be proven to answer with it rather than with its base.",
                    advice="Train further, with more steps or a higher learning rate.",
                )
            )

    def figures(self, trainer: Trainer, *, kept_step: int | None = None) -> dict[str, Any]:
        """The report's figures common to all training: steps, losses, and validation before and after.

        kept_step: the step of the published weights, if they aren't the last.
        """
        evaluations = [
            entry
            for entry in trainer.state.log_history
            if any(map(is_evaluation, entry)) and (kept_step is None or entry["step"] <= kept_step)
        ]
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        gpu_peak = torch.cuda.max_memory_allocated() / 1e6 if torch.cuda.is_available() else 0.0
        return {
            "steps": trainer.state.global_step,
            "loss": {"first": losses[0], "last": losses[-1]} if losses else {},
            "validation": {
                "before": as_metrics(evaluations[0]),
                "after": as_metrics(evaluations[-1]),
            }
            if evaluations
            else {},
            "gpu_peak_memory_mb": round(gpu_peak, 1),
        }


def stop_at_turns(generation: GenerationConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    """Make servers stop at the end of a turn: a base model's generation config only has the end-of-text token."""
    eos = generation.eos_token_id
    ends = [*eos] if isinstance(eos, list) else [] if eos is None else [eos]
    if missing := sorted(turn_ends(tokenizer).difference(ends)):
        generation.eos_token_id = ends + missing


def train_in_float32(model: Any) -> None:
    """Cast trainable weights to float32. New heads have the dtype of the frozen weights, and TRL makes QLoRA's adapters bfloat16, in which most
    updates at a usual learning rate would be rounded away."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


def evaluated_at(state: TrainerState, *, step: int) -> bool:
    return any(entry["step"] == step and any(map(is_evaluation, entry)) for entry in state.log_history)


def is_evaluation(name: str) -> bool:
    return name.startswith("eval_")


def as_metrics(entry: dict[str, float]) -> dict[str, float]:
    """One evaluation under the names used in events, without `eval/`."""
    metrics = {metric_name(name).removeprefix("eval/"): value for name, value in entry.items() if is_evaluation(name)}
    return {
        name: value
        for name, value in metrics.items()
        if not name.endswith(("_time", "runtime", "per_second", "num_tokens"))
    }
