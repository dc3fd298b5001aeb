"""Kahneman-Tversky optimization (Ethayarajh et al., 2024, arXiv 2402.01306) over TRL's KTOTrainer.

Learns from trajectories labeled desirable or not, without pairs. Only the policy's tokens carry loss, also in the mismatched rows that the KL
divergence is estimated from. Those pair each prompt with the completion of the batch's previous row: TRL fixes them, and with them the order of
all rows, before training. Left out: a moving reference model, and precomputed reference log-probabilities.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl.trainer.kto_config import KTOConfig as TrlKtoConfig
from trl.trainer.kto_trainer import KTOTrainer

from contract.configs import KtoConfig
from contract.events import Warned
from contract.rows import UnpairedRow
from trainer.algorithms.arguments import arguments_for, lora_for
from trainer.algorithms.preferences import WeightedModel, padded
from trainer.algorithms.row_means import MeansOverRows
from trainer.algorithms.training_run import Fitting, TrainingRun
from trainer.events import EventLog
from trainer.interruption import StopRequest
from trainer.models.loader import load_policy, load_tokenizer
from trainer.rendering.chat import Rendered, render_completion
from trainer.rows import read_unpaired


def train_kto(config: KtoConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""
    run = TrainingRun(config, folder, events, stop)
    run.log(f"Loading {config.model.path}")
    tokenizer = load_tokenizer(config.model, folder)
    fitting = read(run, tokenizer, config.data.train)
    train = fitting.rows
    run.check_enough(len(train), left_out=f" ({fitting.too_long} too long)", shortest=fitting.shortest)
    validation = read(run, tokenizer, config.data.validation).rows if config.data.validation else []
    warn_of_imbalance(run, config, train)
    trainer = PolicyTokenKto(
        model=load_policy(config.model, folder, run.weights_dtype(), **run.loading()),
        ref_model=None if config.lora else load_policy(config.model, folder, run.weights_dtype()),
        args=TrlKtoConfig(
            beta=config.beta,
            loss_type=config.loss,
            desirable_weight=config.desirable_weight,
            undesirable_weight=config.undesirable_weight,
            **arguments_for(config, folder, rows=len(train), has_validation=bool(validation)),
        ),
        data_collator=UnpairedCollator(
            int(tokenizer.pad_token_id),
            max_length=config.optimizer.max_length,
            with_mismatched=config.loss == "kto",
        ),
        train_dataset=unpaired_dataset(train),
        eval_dataset=unpaired_dataset(validation) if validation else None,
        processing_class=tokenizer,
        peft_config=lora_for(config.lora, task="CAUSAL_LM"),
        callbacks=[run.callback],
    )
    trainer.args.train_sampling_strategy = "random"  # TRL requires a fixed order, since it pairs rows beforehand
    run.train(trainer)
    run.publish(trainer, tokenizer)
    return {
        **run.figures(trainer),
        "rows": {**counts(train, validation), "too_long": fitting.too_long, "refused": run.refused},
    }


@dataclass(frozen=True)
class LabeledRow:
    """One tokenized row."""

    rendered: Rendered
    desirable: bool
    weight: float


def read(run: TrainingRun, tokenizer: PreTrainedTokenizerBase, name: str) -> Fitting[LabeledRow]:
    """Rows within max_length. Raises DataFailure."""
    rows = read_unpaired(run.folder / name)
    run.log(f"Rendering {len(rows)} rows of {name}")
    run.warn_of_lost_reasoning(tokenizer, [row.completion for row in rows], name)
    labeled = run.rendered(rows, partial(render_row, tokenizer), name)
    return run.fitting(labeled, [len(row.rendered.ids) for row in labeled], name)


def render_row(tokenizer: PreTrainedTokenizerBase, row: UnpairedRow) -> LabeledRow:
    return LabeledRow(render_completion(tokenizer, row.prompt, row.completion, row.tools), row.label, row.weight)


def warn_of_imbalance(run: TrainingRun, config: KtoConfig, rows: Sequence[LabeledRow]) -> None:
    """Warn if the total weights of the two kinds differ by more than a factor of 4/3 (equation 8 of the paper)."""
    desirable = sum(row.weight for row in rows if row.desirable) * config.desirable_weight
    undesirable = sum(row.weight for row in rows if not row.desirable) * config.undesirable_weight
    if desirable and undesirable and not 0.75 <= undesirable / desirable <= 4 / 3:
        run.events.emit(
            Warned(
                f"The total weight of desirable rows is {desirable:g}, that of undesirable ones {undesirable:g}.",
                advice="Set desirable_weight or undesirable_weight so that the two are close.",
            )
        )
    if not desirable or not undesirable:
        run.events.emit(
            Warned(
                "All rows have the same label, so there is nothing to distinguish.",
                advice="Add rows with the other label.",
            )
        )


def unpaired_dataset(rows: Sequence[LabeledRow]) -> Dataset:
    """Columns: input_ids, mask, label, weight."""
    return Dataset.from_dict(
        {
            "input_ids": [row.rendered.ids for row in rows],
            "mask": [row.rendered.mask for row in rows],
            "label": [row.desirable for row in rows],
            "weight": [row.weight for row in rows],
        }
    )


@dataclass
class UnpairedCollator:
    """Pads rows into a batch for TRL's losses."""

    pad_token_id: int
    max_length: int
    """Longer mismatched rows are cut off: a prompt and a completion that are together too long mustn't take more memory than any row."""
    with_mismatched: bool = True

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """input_ids, attention_mask, completion_mask and the same for the mismatched rows with the prefix KL_: (B, T) int64; label: (B,) bool; weight: (B,) float32."""
        rendered = [Rendered(row["input_ids"], row["mask"]) for row in rows]
        batch = self._tensors(rendered, "")
        if self.with_mismatched:
            batch |= self._tensors(
                [
                    crossed(a, b, max_length=self.max_length)
                    for a, b in zip(rendered, rendered[-1:] + rendered[:-1], strict=True)
                ],
                "KL_",
            )
        return {
            **batch,
            "label": torch.tensor([row["label"] for row in rows], dtype=torch.bool),
            "weight": torch.tensor([row["weight"] for row in rows], dtype=torch.float32),
        }

    def _tensors(self, rows: list[Rendered], prefix: str) -> dict[str, torch.Tensor]:
        return {
            f"{prefix}input_ids": padded([row.ids for row in rows], self.pad_token_id),
            f"{prefix}attention_mask": padded([[1] * len(row.ids) for row in rows], 0),
            f"{prefix}completion_mask": padded([row.mask for row in rows], 0),
        }


def crossed(prompt: Rendered, completion: Rendered, *, max_length: int) -> Rendered:
    """One row's prompt, up to its first policy token, followed by another row's completion, as far as it fits."""
    end, begin = prompt.mask.index(1), completion.mask.index(1)
    until = begin + max_length - end
    return Rendered(prompt.ids[:end] + completion.ids[begin:until], [0] * end + completion.mask[begin:until])


def counts(train: Sequence[LabeledRow], validation: Sequence[LabeledRow]) -> dict[str, int]:
    return {
        "train": len(train),
        "validation": len(validation),
        "desirable": sum(row.desirable for row in train),
        "tokens": sum(len(row.rendered.ids) for row in train),
        "policy_tokens": sum(row.rendered.policy_tokens for row in train),
    }


class PolicyTokenKto(MeansOverRows, KTOTrainer):
    """TRL's trainer on rows with token ids, a mask of the policy's tokens, and a weight."""

    def _prepare_dataset(self, dataset: Dataset, *_: object) -> Dataset:
        return dataset  # already rendered and masked

    def _compute_loss(self, model: Callable[..., Any], inputs: dict[str, torch.Tensor], return_outputs: bool) -> Any:
        rows, desirable = len(inputs["label"]), int(inputs["label"].sum())
        self.count(rows, chosen=desirable, rejected=rows - desirable)
        weighted = WeightedModel(model, inputs.pop("weight"), "log_probs")
        return super()._compute_loss(weighted, inputs, return_outputs)  # type: ignore[no-untyped-call]  # TRL leaves it untyped
