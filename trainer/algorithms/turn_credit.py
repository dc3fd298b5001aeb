"""Turn-level advantages: each turn is credited with what came of it, compared with the same turn of the group's other rollouts.

After the process supervision of GRPO (Shao et al., 2024, arXiv 2402.03300, section 4.1.3: a token's advantage sums the step rewards that follow
it) and multi-turn GRPO (Zeng et al., 2025, arXiv 2505.11821: a baseline for each turn, and a turn's own reward counts more than the outcome). Here a turn
counts in full for the next reward that it leads to, and LATER as much for each one after that. Left out: GRPO's normalizing of single step rewards, which
makes a rollout worse by being longer; a critic; and tuning how turn and outcome rewards are mixed (they add up to the total here).
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

import torch

from trainer.rewards import Reward

Scale = Literal["group", "batch", "none"]
TINY = 1e-4
LATER = 0.5
"""How much a reward counts for turns before the last reward: two sub-goals in a row are mostly two pieces of work."""


def turn_rewards(reward: Reward) -> list[float]:
    """What each turn earned. What the total has beyond the turns' sum (a reward for the whole run) goes to the last."""
    if not reward.turns:
        return []
    return [*reward.turns[:-1], reward.turns[-1] + reward.total - sum(reward.turns)]


def turn_advantages(rewards: Sequence[Sequence[float]], *, samples: int, scale: Scale) -> list[list[float]]:
    """One number a turn, from the rewards of each rollout's turns; consecutive `samples` rollouts are a group.

    What is to come from a turn on, less its mean over the group at the same turn (a rollout that is over has none to come), divided by the
    root mean square of the group's or the batch's.
    """
    advantages = [
        each
        for start in range(0, len(rewards), samples)
        for each in centred([to_go(rollout) for rollout in rewards[start : start + samples]])
    ]
    if scale == "none":
        return advantages
    width = samples if scale == "group" else len(advantages)
    for start in range(0, len(advantages), width):
        part = advantages[start : start + width]
        square = fmean([value * value for rollout in part for value in rollout] or [0.0])
        advantages[start : start + width] = [[value / (square**0.5 + TINY) for value in rollout] for rollout in part]
    return advantages


def to_go(rewards: Sequence[float]) -> list[float]:
    """[1, 0, 4] -> [3, 4, 4]: what is still to come at each turn, its own reward included, each reward after the next one LATER as much."""
    left = [0.0]
    for reward in reversed(rewards):
        left.append(reward + (LATER if reward else 1.0) * left[-1])
    return left[:0:-1]


def centred(group: Sequence[list[float]]) -> list[list[float]]:
    """Less the mean over the group at the same turn."""
    longest = max(map(len, group), default=0)
    means = [sum(each[turn] for each in group if turn < len(each)) / len(group) for turn in range(longest)]
    return [[value - mean for value, mean in zip(each, means, strict=False)] for each in group]


def spread_over_tokens(advantages: Sequence[Sequence[float]], turns: Sequence[Sequence[int]]) -> torch.Tensor:
    """(B, T): for each token the advantage of the turn that wrote it; 0 for other tokens (negative turns) and padding."""
    rows = [
        torch.tensor([own[turn] if turn >= 0 else 0.0 for turn in row])
        for own, row in zip(advantages, turns, strict=True)
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
