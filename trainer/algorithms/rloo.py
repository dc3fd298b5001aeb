"""REINFORCE with a leave-one-out baseline (Ahmadian et al., 2024, arXiv 2402.14740) over TRL's RLOOTrainer.

A rollout is one action: its advantage is its reward less the mean of the others in its group, and its ratio is over the whole
sequence of the policy's tokens. TRL on its own would include tool results. The KL penalty is part of the reward. Left out:
reward clipping, and the moving average as a baseline.
"""

from pathlib import Path
from typing import Any

import torch
from trl.trainer.rloo_config import RLOOConfig as TrlRlooConfig
from trl.trainer.rloo_trainer import RLOOTrainer

from contract.configs import RlooConfig
from trainer.algorithms.arguments import lora_for
from trainer.algorithms.online import LearnsFromRollouts, train_online, trl_arguments
from trainer.algorithms.online_training import RolloutSource
from trainer.events import EventLog
from trainer.interruption import StopRequest


def train_rloo(config: RlooConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""

    def make(_: object, source: RolloutSource, common: dict[str, Any]) -> PolicyTokenRloo:
        arguments = TrlRlooConfig(normalize_advantages=config.normalize, **trl_arguments(config, source, folder))
        return PolicyTokenRloo(source, args=arguments, peft_config=lora_for(config.lora, task="CAUSAL_LM"), **common)

    return train_online(config, folder, events, stop, make)


class PolicyTokenRloo(LearnsFromRollouts, RLOOTrainer):
    """TRL's trainer on multi-turn rollouts: tokens that the policy didn't write are excluded from a sequence's log-probability."""

    def __init__(self, source: RolloutSource, **arguments: Any) -> None:
        self.source = source
        self._own = torch.empty(0, 0)
        super().__init__(reward_funcs=[source.total], **arguments)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        # TRL logs lengths of the whole completion, including tool results.
        lengths = self.accelerator.gather(self._own.sum(1)).float()
        for name, value in {"mean": lengths.mean(), "min": lengths.min(), "max": lengths.max()}.items():
            self._metrics["train"][f"completions/{name}_length"][-1] = value.item()
        if self.beta:
            # TRL logs the KL divergence per token of the whole completion, including tool results.
            counts = torch.stack([output["completion_mask"].sum(), self._own.sum()]).float()
            counted, policy_tokens = self.accelerator.reduce(counts, reduction="sum").tolist()
            self._metrics["train"]["kl"][-1] *= counted / max(1.0, policy_tokens)
        return {**output, "own": self._own}

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        self._own = self.padded([row.own for row in self.source.batch.rows])
        return [row.prompt for row in self.source.batch.rows], None, {}

    def _generate_single_turn(self, *_: object) -> list[list[int]]:
        return [row.completion for row in self.source.batch.rows]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._own = inputs["own"]
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        return loss

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **more: Any) -> tuple[Any, Any, Any]:
        """(B, T) log-probabilities and entropies, 0 where the token is not the policy's.

        TRL averages entropies over the whole completion, so those of the policy's tokens are scaled up to compensate.
        """
        logps, entropies, auxiliary = super()._get_per_token_logps_and_entropies(*arguments, **more)
        mask = self._own
        if entropies is not None:
            attended = arguments[2] if len(arguments) > 2 else more["attention_mask"]
            counted = attended[:, -mask.size(1) :].sum()
            entropies = entropies * mask * (counted / mask.sum().clamp(min=1))
        return logps * mask, entropies, auxiliary
