"""Config of group relative policy optimization."""

from typing import Annotated, Literal

from contract.configs.declaration import Setting
from contract.configs.online import OnlineConfig

CREDITS = {"trajectory": "Whole rollout", "turn": "Each turn, from later rewards"}


class GrpoConfig(OnlineConfig):
    """Group relative policy optimization."""

    kind: Literal["grpo"] = "grpo"
    loss: Annotated[Literal["dapo", "dr_grpo", "grpo"], Setting(basic=True)] = "dapo"
    """How the loss is averaged: over all tokens of a step (dapo), over a constant (dr_grpo), or within each rollout first (grpo)."""
    scale: Annotated[Literal["group", "batch", "none"], Setting("Advantages divided by")] = "group"
    """The standard deviation of the group's rewards, of the whole step's rewards, or nothing."""
    credit: Annotated[Literal["trajectory", "turn"], Setting("Credit", basic=True, labels=CREDITS)] = "trajectory"
    """Whether all tokens of a rollout share one advantage, or each turn has its own, from the rewards that came after it."""
