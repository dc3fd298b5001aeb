"""A reward model from pairwise preferences: Bradley-Terry (Christiano et al., 2017; Ouyang et al., 2022) over TRL's RewardTrainer.

The reward of a trajectory is one number, read at the last token that the policy wrote. What pairs may hold beyond which side is better
(`margin`, `weight`, `soft_label`, `tie`) is in `pair_loss`, the evaluation in `pair_figures`. Left out: multi-objective rewards
and generative reward models.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from trl.trainer.reward_config import RewardConfig
from trl.trainer.reward_trainer import RewardTrainer

from contract.configs import RewardModelConfig
from trainer.algorithms.arguments import arguments_for, lora_for
from trainer.algorithms.data_files import read_pairs
from trainer.algorithms.pair_figures import Ranked, pair_figures
from trainer.algorithms.pair_loss import pair_losses
from trainer.algorithms.preferences import PAIR_COLUMNS, Pair, PairCollator, pair_dataset
from trainer.algorithms.row_means import MeansOverRows
from trainer.algorithms.training_run import TrainingRun
from trainer.events import EventLog
from trainer.interruption import StopRequest
from trainer.models.loader import load_reward_model, load_tokenizer
from trainer.models.reward_scores import rewards_of


def train_reward_model(config: RewardModelConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""
    run = TrainingRun(config, folder, events, stop)
    run.log(f"Loading {config.model.path}")
    tokenizer = load_tokenizer(config.model, folder)
    data = read_pairs(run, tokenizer)
    torch.manual_seed(config.seed)  # the head is randomly initialized
    dtype, pad = run.weights_dtype(), int(tokenizer.pad_token_id)
    model = load_reward_model(config.model, folder, dtype, pad, **run.loading())
    trainer = PairReward(
        model=model,
        args=RewardConfig(
            **arguments_for(config, folder, rows=len(data.train), has_validation=bool(data.validation)),
        ),
        data_collator=PairCollator(tokenizer.pad_token_id),
        train_dataset=pair_dataset(data.train),
        eval_dataset=pair_dataset(data.validation) if data.validation else None,
        processing_class=tokenizer,
        peft_config=lora_for(config.lora, task="SEQ_CLS", full_modules=("score",)),
        callbacks=[run.callback],
    )
    trainer.settings = config
    run.train(trainer)
    figures = {**run.figures(trainer), "rows": data.counts}
    if data.validation:
        ranked = rank(trainer, data.validation, int(tokenizer.pad_token_id), config.optimizer.batch_size)
        figures |= pair_figures(ranked)
    run.publish(trainer, tokenizer)
    return figures


class PairReward(MeansOverRows, RewardTrainer):
    """TRL's trainer on rows with token ids, margins, soft labels, ties, and weights."""

    settings: RewardModelConfig

    def _prepare_dataset(self, dataset: Dataset, *_: object) -> Dataset:
        return dataset  # already rendered

    def compute_loss(
        self, model: Callable[..., Any], inputs: dict[str, Tensor], return_outputs: bool = False, *_: Any, **__: Any
    ) -> Any:
        inputs.pop("completion_mask")
        columns = {name: inputs.pop(name) for name in PAIR_COLUMNS}
        _, outputs = super().compute_loss(model, inputs, return_outputs=True)  # type: ignore[no-untyped-call]  # it logs the metrics
        chosen, rejected = outputs.logits.squeeze(-1).float().chunk(2)
        self._count(chosen > rejected, columns["tie"] == 0)
        loss = weighted_loss(chosen, rejected, columns, self.settings)
        return (loss, outputs) if return_outputs else loss

    def _count(self, right: Tensor, decided: Tensor) -> None:
        """Replace TRL's accuracy by that on pairs without ties, in which neither order is wrong."""
        counts = torch.stack([(right & decided).sum(), decided.sum()])
        correct, total = self.accelerator.gather(counts).view(-1, 2).sum(0).tolist()
        accuracies = self._metrics["train" if self.model.training else "eval"]["accuracy"]
        accuracies.pop()
        accuracies += [correct / total] if total else []
        self.count(len(decided), accuracy=total)


def weighted_loss(chosen: Tensor, rejected: Tensor, columns: dict[str, Tensor], settings: RewardModelConfig) -> Tensor:
    """The weighted mean of the pairs' losses, plus the penalty that keeps rewards near zero.

    chosen, rejected, and `columns`: (B,) float32. Returns a scalar.
    """
    soft = settings.soft_labels
    losses = pair_losses(
        chosen,
        rejected,
        margin=columns["margin"] + settings.margin * columns["strength"],
        soft_label=columns["soft_label"] if soft else torch.ones_like(columns["soft_label"]),
        tie=columns["tie"],
        tie_margin=settings.tie_margin,
    )
    centering = settings.center * (chosen + rejected).square()
    return ((losses * columns["label_weight" if soft else "weight"]) + centering).mean()


def rank(trainer: RewardTrainer, pairs: list[Pair], pad_id: int, batch_size: int) -> list[Ranked]:
    """Score held-out pairs; ties are left out, since neither order is wrong."""
    model: Any = trainer.model
    model.eval()
    decided = [pair for pair in pairs if not pair.tie]
    sides = [side for pair in decided for side in (pair.chosen, pair.rejected)]
    with trainer.accelerator.autocast():
        rewards = rewards_of(model, sides, pad_id=pad_id, batch_size=2 * batch_size)
    return [
        Ranked(
            chosen=chosen,
            rejected=rejected,
            chosen_length=pair.chosen.policy_tokens,
            rejected_length=pair.rejected.policy_tokens,
            soft_label=1.0 if pair.soft_label is None else pair.soft_label,
            shown_left=pair.shown_left,
        )
        for pair, chosen, rejected in zip(decided, rewards[::2], rewards[1::2], strict=True)
    ]
