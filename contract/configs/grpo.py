"""What group relative policy optimization may be told."""

from typing import Annotated, Literal

from contract.configs.declaration import Setting
from contract.configs.online import OnlineConfig

CREDITS = {"trajectory": "The whole rollout alike", "turn": "Each turn, by what came of it"}


class GrpoConfig(OnlineConfig):
    """Group relative policy optimization."""

    kind: Literal["grpo"] = "grpo"
    loss: Annotated[Literal["dapo", "dr_grpo", "grpo"], Setting(basic=True)] = "dapo"
    """How tokens are averaged: over all of a step's (dapo), over a constant (dr_grpo), or within each rollout first (grpo)."""
    scale: Annotated[Literal["group", "batch", "none"], Setting("Advantages divided by")] = "group"
    """The spread of their group's rewards, of the whole step's, or nothing."""
    credit: Annotated[Literal["trajectory", "turn"], Setting("Credit", basic=True, labels=CREDITS)] = "trajectory"
    """Whether all of a rollout's tokens share its advantage, or each turn has one of its own, from the rewards that came after it."""
