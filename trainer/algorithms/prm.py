"""A process reward model: how good each turn of a trajectory is (Lightman et al., 2023, arXiv 2305.20050), over transformers' Trainer.

Each turn is a three-way classification (bad, neutral, good) read at the last token that the policy wrote in it; its score is
P(good) - P(bad). Labels between -1 and 1, such as the mean of several judgments, become soft targets. A known first error
also labels the turns before it. Left out: labels from rollouts of each prefix (Wang et al., 2023, Math-Shepherd), and comparisons
between turns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainingArguments

from contract.configs import ProcessRewardModelConfig
from trainer.algorithms.arguments import common_arguments, lora_for
from trainer.algorithms.judged_steps import LabeledSteps, StepCollator, read_steps, step_dataset
from trainer.algorithms.step_figures import first_error, step_accuracy
from trainer.algorithms.training_run import TrainingRun
from trainer.events import EventLog
from trainer.interruption import StopRequest
from trainer.models.loader import load_process_model, load_tokenizer
from trainer.models.reward_scores import step_chances


def train_process_reward_model(
    config: ProcessRewardModelConfig, folder: Path, events: EventLog, stop: StopRequest
) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""
    run = TrainingRun(config, folder, events, stop)
    run.log(f"Loading {config.model.path}")
    tokenizer = load_tokenizer(config.model, folder)
    train = read_steps(run, tokenizer, config.data.train, first_error_only=config.first_error_only)
    run.check_enough(len(train.examples), left_out=f" ({train.too_long} too long)", shortest=train.shortest)
    validation: list[LabeledSteps] = []
    if config.data.validation:
        validation = read_steps(
            run, tokenizer, config.data.validation, first_error_only=config.first_error_only
        ).examples
    torch.manual_seed(config.seed)  # the head is randomly initialized
    trainer = ProcessRewardTrainer(
        model=prepared(config, folder, run.weights_dtype(), run.loading()),
        args=TrainingArguments(
            **common_arguments(config, folder, rows=len(train.examples), has_validation=bool(validation)),
            prediction_loss_only=True,
        ),
        data_collator=StepCollator(int(tokenizer.pad_token_id)),
        train_dataset=step_dataset(train.examples),
        eval_dataset=step_dataset(validation) if validation else None,
        processing_class=tokenizer,
        callbacks=[run.callback],
    )
    trainer.error_weight = config.error_weight
    run.train(trainer)
    figures = {
        **run.figures(trainer),
        "rows": {**counts(train.examples, validation, train.too_long), "refused": run.refused},
    }
    if validation:
        figures |= judged(trainer, validation, int(tokenizer.pad_token_id), config.optimizer.batch_size)
    run.publish(trainer, tokenizer)
    return figures


def prepared(config: ProcessRewardModelConfig, folder: Path, dtype: torch.dtype, loading: dict[str, Any]) -> Any:
    model: Any = load_process_model(config.model, folder, dtype, **loading)
    adapters = lora_for(config.lora, task="TOKEN_CLS", full_modules=("score",))
    if adapters is None:
        return model
    if config.optimizer.gradient_checkpointing:
        model.enable_input_require_grads()
    return get_peft_model(model, adapters)


@dataclass
class JudgedTurns:
    """Counts of turns that people judged."""

    right: int = 0
    """Those whose most likely class is the judged one."""
    total: int = 0

    def add(self, right: int, total: int) -> None:
        self.right += right
        self.total += total


class ProcessRewardTrainer(Trainer):
    """Cross-entropy at the turns' ends."""

    loss_is_scaled_for_ga = True
    error_weight = 1.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._judged = {True: JudgedTurns(), False: JudgedTurns()}
        """Turns since the last log, for training and evaluation."""
        self._tokens = 0

    def compute_loss(
        self,
        model: Callable[..., Any],
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False)
        logits = outputs.logits[inputs["row"], inputs["end"]].float()
        turns = len(logits) if num_items_in_batch is None else num_items_in_batch / self.accelerator.num_processes
        loss = step_loss(logits, inputs["target"], inputs["weight"], error_weight=self.error_weight, turns=turns)
        right = logits.argmax(-1) == inputs["target"].argmax(-1)
        counts = self.accelerator.gather(torch.tensor([int(right.sum()), len(right)], device=right.device))
        self._judged[self.is_training].add(*counts.view(-1, 2).sum(0).tolist())
        if self.is_training:
            self._tokens += int(self.accelerator.gather(inputs["attention_mask"].sum()).sum())
        return (loss, outputs) if return_outputs else loss

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, Tensor]], device: torch.device) -> Tensor:
        """The judged turns of an optimizer step: its passes have different numbers of them."""
        turns = torch.tensor(sum(len(batch["end"]) for batch in batch_samples), device=device)
        total: Tensor = self.accelerator.gather(turns).sum()
        return total

    @property
    def is_training(self) -> bool:
        model: Any = self.model
        return bool(model.training)

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: Any = None
    ) -> tuple[Tensor, None, None]:
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            return self.compute_loss(model, inputs).detach(), None, None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        judged = self._judged[self.is_training]
        if judged.total:
            logs["step_accuracy" if self.is_training else "eval_step_accuracy"] = judged.right / judged.total
        self._judged[self.is_training] = JudgedTurns()
        super().log({**logs, "num_tokens": float(self._tokens)}, start_time)


def step_loss(logits: Tensor, target: Tensor, weight: Tensor, *, error_weight: float, turns: Tensor | float) -> Tensor:
    """Cross-entropy in nats, as the share of a mean over `turns` judged turns, of which S are in this pass.

    logits, target: (S, 3) for bad, neutral, good, float32; weight: (S,). The bad share of a turn's target counts `error_weight` times.
    """
    counts = weight * (1 + (error_weight - 1) * target[:, 0])
    return (cross_entropy(logits, target, reduction="none") * counts).sum() / turns


def judged(trainer: Trainer, examples: list[LabeledSteps], pad_id: int, batch_size: int) -> dict[str, Any]:
    """Held-out figures."""
    model: Any = trainer.model
    model.eval()
    with trainer.accelerator.autocast():
        chances = step_chances(model, [example.rendered for example in examples], pad_id=pad_id, batch_size=batch_size)
    return {
        "step_accuracy": step_accuracy(chances, [example.labels for example in examples]),
        "first_error": first_error(chances, [example.first_error for example in examples]),
    }


def counts(train: list[LabeledSteps], validation: list[LabeledSteps], too_long: int) -> dict[str, int]:
    return {
        "train": len(train),
        "validation": len(validation),
        "too_long": too_long,
        "turns": sum(label is not None for example in train for label in example.labels),
        "tokens": sum(len(example.rendered.ids) for example in train),
    }
