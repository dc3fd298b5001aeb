"""A reward model from pairwise preferences: Bradley–Terry (Christiano et al., 2017; Ouyang et al., 2022) over TRL's RewardTrainer.

The reward of a trajectory is one number, read at the last token that the policy wrote. A `margin` column is the least difference that
is asked for (Touvron et al., 2023, section 3.2.2), a `weight` column scales a pair's gradient. Left out: ties and soft labels.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl.trainer.reward_config import RewardConfig
from trl.trainer.reward_trainer import RewardTrainer

from trainer.algorithms.arguments import arguments_for, lora_for
from trainer.algorithms.preferences import Pair, PairCollator, WeightedModel, pair_dataset
from trainer.algorithms.reading import read_pairs
from trainer.algorithms.training import TrainingRun
from trainer.configs import RewardModelConfig
from trainer.events import EventLog
from trainer.models.loading import load_reward_model, load_tokenizer
from trainer.statistics import proportion
from trainer.stopping import StopRequest


def train_reward_model(config: RewardModelConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Returns the report's figures. Raises Cancelled, RunFailure."""
    run = TrainingRun(config, folder, events, stop)
    run.say(f"Loading {config.model.path}")
    tokenizer = load_tokenizer(config.model, folder)
    data = read_pairs(run, tokenizer)
    torch.manual_seed(config.seed)  # the head starts random
    model = load_reward_model(config.model, folder, run.weights_dtype(), tokenizer.pad_token_id)
    trainer = WeightedReward(
        model=model,
        args=RewardConfig(
            center_rewards_coefficient=config.center or None,
            **arguments_for(config, folder, rows=len(data.train), has_validation=bool(data.validation)),
        ),
        data_collator=PairCollator(tokenizer.pad_token_id),
        train_dataset=pair_dataset(data.train),
        eval_dataset=pair_dataset(data.validation) if data.validation else None,
        processing_class=tokenizer,
        peft_config=lora_for(config.lora, task="SEQ_CLS", whole=("score",)),
        callbacks=[run.callback],
    )
    run.train(trainer)
    figures = {**run.figures(trainer), "rows": data.counts}
    if data.validation:
        figures["held_out_accuracy"] = pair_accuracy(trainer, data.validation, tokenizer, config.optimizer.batch_size)
    run.publish(trainer, tokenizer)
    return figures


class WeightedReward(RewardTrainer):
    """TRL's trainer on rows that come with token ids and a weight."""

    def _prepare_dataset(self, dataset: Dataset, *_: object) -> Dataset:
        return dataset  # rendered already

    def compute_loss(
        self, model: Callable[..., Any], inputs: dict[str, torch.Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        inputs.pop("completion_mask")
        weighted = WeightedModel(model, inputs.pop("weight"), "logits")
        return super().compute_loss(weighted, inputs, *args, **kwargs)  # type: ignore[no-untyped-call]  # TRL leaves it untyped


@torch.no_grad()
def pair_accuracy(
    trainer: RewardTrainer, pairs: list[Pair], tokenizer: PreTrainedTokenizerBase, batch_size: int
) -> dict[str, float]:
    """The share of pairs whose chosen side has the higher reward, with its 95 % interval; a tie is wrong."""
    model: Any = trainer.model
    model.eval()
    collate = PairCollator(tokenizer.pad_token_id)
    right = 0
    for start in range(0, len(pairs), batch_size):
        batch = collate(list(pair_dataset(pairs[start : start + batch_size])))
        ids, attention = batch["input_ids"].to(model.device), batch["attention_mask"].to(model.device)
        chosen, rejected = model(input_ids=ids, attention_mask=attention).logits.squeeze(-1).chunk(2)
        right += int((chosen > rejected).sum())
    return proportion(right, len(pairs))._asdict()
