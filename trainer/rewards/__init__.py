"""Rewards from components: `rewards_for(config, folder)` builds them, `.score(trajectories)` returns each trajectory's total, every
component's value, and per-turn values."""

from trainer.rewards.components import rewards_for
from trainer.rewards.protocol import Component, Score
from trainer.rewards.total import Reward, Rewards

__all__ = ["Component", "Reward", "Rewards", "Score", "rewards_for"]
