"""Group relative policy optimization (Shao et al., 2024, arXiv 2402.03300) over TRL's GRPOTrainer.

With DAPO's token-level average, clip-higher and dynamic sampling (Yu et al., 2025, arXiv 2503.14476), or Dr. GRPO's constant
normalizer (Liu et al., 2025, arXiv 2503.20783). Only the policy's tokens carry loss, not the tool results between its turns. Turn-level
credit is in `turn_credit`. Left out: DAPO's overlong shaping, sequence-level ratios (GSPO), and a moving reference model.
"""

from pathlib import Path
from typing import Any

from trl.trainer.grpo_config import GRPOConfig as TrlGrpoConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from contract.configs import GrpoConfig
from trainer.algorithms.arguments import lora_for
from trainer.algorithms.online import LearnsFromRollouts, train_online, trl_arguments
from trainer.algorithms.online_training import Batch, RolloutSource
from trainer.algorithms.runner_rollouts import is_absent
from trainer.algorithms.turn_credit import spread_over_tokens, turn_advantages, turn_rewards
from trainer.events import EventLog
from trainer.interruption import StopRequest


def train_grpo(config: GrpoConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""

    def make(_: object, source: RolloutSource, common: dict[str, Any]) -> PolicyTokenGrpo:
        arguments = TrlGrpoConfig(
            loss_type=config.loss, scale_rewards=config.scale, **trl_arguments(config, source, folder)
        )
        return PolicyTokenGrpo(source, args=arguments, peft_config=lora_for(config.lora, task="CAUSAL_LM"), **common)

    return train_online(config, folder, events, stop, make)


class PolicyTokenGrpo(LearnsFromRollouts, GRPOTrainer):
    """TRL's trainer on rollouts with a mask of the policy's tokens."""

    def __init__(self, source: RolloutSource, **arguments: Any) -> None:
        self.source = source
        super().__init__(reward_funcs=[source.total], rollout_func=played, **arguments)

    def credit(self, batch: Batch, output: dict[str, Any]) -> None:
        config = self.source.config
        if not isinstance(config, GrpoConfig) or config.credit == "trajectory":
            return
        rewards = [
            None if is_absent(rollout) else turn_rewards(reward)
            for rollout, reward in zip(batch.rollouts, batch.rewards, strict=True)
        ]
        batch.turn_advantages = turn_advantages(rewards, samples=config.samples, scale=config.scale)
        spread = spread_over_tokens(batch.turn_advantages, [row.turns for row in batch.rows])
        output["advantages"] = spread.to(self.accelerator.device)


def played(_: list[str], trainer: Any) -> dict[str, Any]:
    """TRL's rollout function: returns the rollouts already played for this step."""
    rows = trainer.source.batch.rows
    return {
        "prompt_ids": [row.prompt for row in rows],
        "completion_ids": [row.completion for row in rows],
        "env_mask": [row.own for row in rows],
        "logprobs": None,  # only needed for vLLM, whose log-probabilities differ from the model's
    }
