"""Rewards out of components: `rewards_for(config, folder)` makes them, `.score(trajectories)` gives each run its total, every
component's own value, and what the components say of each turn."""

from trainer.rewards.components import rewards_for
from trainer.rewards.protocol import Component, Score
from trainer.rewards.total import Reward, Rewards

__all__ = ["Component", "Reward", "Rewards", "Score", "rewards_for"]
