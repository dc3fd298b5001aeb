"""Turn-level advantages: each turn is credited with the rewards that follow, relative to the same turn in the group's other rollouts.

After the process supervision of GRPO (Shao et al., 2024, arXiv 2402.03300, section 4.1.3: a token's advantage sums the step rewards that follow
it) and multi-turn GRPO (Zeng et al., 2025, arXiv 2505.11821: a baseline for each turn, and a turn's own reward counts more than the outcome). Here a turn
gets full credit for the next reward, and each later one is discounted by a further factor LATER. Left out: GRPO's normalization of step rewards, which
penalizes longer rollouts; a critic; and tuning the mix of turn and outcome rewards (here they add up to the total).
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

import torch

from trainer.rewards import Reward

Scale = Literal["group", "batch", "none"]
TINY = 1e-4
LATER = 0.5
"""Discount per reward in between: consecutive subgoals are mostly separate pieces of work."""


def turn_rewards(reward: Reward) -> list[float]:
    """The reward of each turn. The rest of the total beyond the turns' sum (a reward for the whole rollout) goes to the last."""
    if not reward.turns:
        return []
    return [*reward.turns[:-1], reward.turns[-1] + reward.total - sum(reward.turns)]


def turn_advantages(rewards: Sequence[Sequence[float] | None], *, samples: int, scale: Scale) -> list[list[float]]:
    """One advantage per turn, from the rewards of each rollout's turns; consecutive `samples` rollouts are a group.

    The reward-to-go of a turn, minus its mean over the group at the same turn (0 for finished rollouts), divided by the
    root mean square over the group or the batch. None: nobody played the rollout, which says nothing about the others.
    """
    advantages: list[list[float]] = []
    for start in range(0, len(rewards), samples):
        group = rewards[start : start + samples]
        played = iter(centered([rewards_to_go(rollout) for rollout in group if rollout is not None]))
        advantages += [[] if rollout is None else next(played) for rollout in group]
    if scale == "none":
        return advantages
    width = samples if scale == "group" else len(advantages)
    for start in range(0, len(advantages), width):
        part = advantages[start : start + width]
        square = fmean([value * value for rollout in part for value in rollout] or [0.0])
        advantages[start : start + width] = [[value / (square**0.5 + TINY) for value in rollout] for rollout in part]
    return advantages


def rewards_to_go(rewards: Sequence[float]) -> list[float]:
    """[1, 0, 4] -> [3, 4, 4]: the reward-to-go of each turn, including its own, where each reward after the next is discounted by LATER."""
    returns = [0.0]
    for reward in reversed(rewards):
        returns.append(reward + (LATER if reward else 1.0) * returns[-1])
    return returns[:0:-1]


def centered(group: Sequence[list[float]]) -> list[list[float]]:
    """Values minus the group's mean at the same turn."""
    longest = max(map(len, group), default=0)
    means = [sum(returns[turn] for returns in group if turn < len(returns)) / len(group) for turn in range(longest)]
    return [[value - mean for value, mean in zip(returns, means, strict=False)] for returns in group]


def spread_over_tokens(advantages: Sequence[Sequence[float]], turns: Sequence[Sequence[int]]) -> torch.Tensor:
    """(B, T): for each token the advantage of the turn that wrote it; 0 for other tokens (negative turn indices) and padding."""
    rows = [
        torch.tensor([turn_advantages[turn] if turn >= 0 else 0.0 for turn in row])
        for turn_advantages, row in zip(advantages, turns, strict=True)
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
