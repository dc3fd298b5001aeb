"""Direct preference optimization (Rafailov et al., 2023, arXiv 2305.18290) over TRL's DPOTrainer.

Whole trajectories or steps: a row's prompt is the shared prefix, and only the policy's tokens after it carry loss; TRL on its own would
also train on the tool results in between. With `scope` "step", each side is cut after its first turn, where the two sides diverge (Lai et
al., 2024, arXiv 2406.18629: step-wise preferences after a shared prefix). Left out: `margin` and `soft_label` columns (offset and conservative
DPO), ties, reference-free variants, and a moving reference model. Length-normalized losses use the number of policy tokens.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl.trainer.dpo_config import DPOConfig as TrlDpoConfig
from trl.trainer.dpo_trainer import DPOTrainer

from contract.configs import DpoConfig
from trainer.algorithms.arguments import arguments_for, lora_for
from trainer.algorithms.data_files import first_turns, read_pairs, without_ties
from trainer.algorithms.preferences import PAIR_COLUMNS, PairCollator, WeightedModel, pair_dataset
from trainer.algorithms.row_means import MeansOverRows
from trainer.algorithms.training_run import TrainingRun
from trainer.events import EventLog
from trainer.interruption import StopRequest
from trainer.models.loader import load_policy, load_tokenizer


def train_dpo(config: DpoConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""
    run = TrainingRun(config, folder, events, stop)
    run.log(f"Loading {config.model.path}")
    tokenizer = load_tokenizer(config.model, folder)
    data = read_pairs(run, tokenizer, cut=first_turns if config.scope == "step" else without_ties)
    model = load_policy(config.model, folder, run.weights_dtype(), **run.loading())
    trainer = PolicyTokenDpo(
        model=model,
        ref_model=None if config.lora else load_policy(config.model, folder, run.weights_dtype()),
        args=trl_arguments(config, folder, rows=len(data.train), has_validation=bool(data.validation)),
        data_collator=PairCollator(tokenizer.pad_token_id),
        train_dataset=pair_dataset(data.train),
        eval_dataset=pair_dataset(data.validation) if data.validation else None,
        processing_class=tokenizer,
        peft_config=lora_for(config.lora, task="CAUSAL_LM"),
        callbacks=[run.callback],
    )
    run.train(trainer)
    run.publish(trainer, tokenizer)
    return {**run.figures(trainer), "rows": data.counts}


def trl_arguments(config: DpoConfig, folder: Path, *, rows: int, has_validation: bool) -> TrlDpoConfig:
    with_sft = config.sft_weight > 0
    return TrlDpoConfig(
        beta=config.beta,
        loss_type=[config.loss, "sft"] if with_sft else [config.loss],
        loss_weights=[1.0, config.sft_weight] if with_sft else None,
        label_smoothing=config.label_smoothing,
        **arguments_for(config, folder, rows=rows, has_validation=has_validation),
    )


class PolicyTokenDpo(MeansOverRows, DPOTrainer):
    """TRL's trainer on rows with token ids, a mask of the policy's tokens, and a weight."""

    def _prepare_dataset(self, dataset: Dataset, *_: object) -> Dataset:
        return dataset  # already rendered and masked

    def _compute_loss(self, model: Callable[..., Any], inputs: dict[str, torch.Tensor], return_outputs: bool) -> Any:
        columns = {name: inputs.pop(name) for name in PAIR_COLUMNS}
        self.count(len(columns["weight"]))
        weighted = WeightedModel(model, columns["weight"].repeat(2), "log_probs")
        return super()._compute_loss(weighted, inputs, return_outputs)  # type: ignore[no-untyped-call]  # TRL leaves it untyped
