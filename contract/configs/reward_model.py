"""Config of reward model training."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.training import FileTrainingConfig


class RewardModelConfig(FileTrainingConfig):
    """A Bradley–Terry reward model."""

    kind: Literal["reward_model"] = "reward_model"
    center: Annotated[float, Field(ge=0, le=10)] = 0.01
    """Weight of the squared sum of a pair's two rewards, which keeps rewards near zero (Eisenstein et al., 2023)."""
    soft_labels: bool = True
    """Learn from `soft_label` and `label_weight` where rows have them; when off, the chosen side is taken as certain, with the row's `weight`."""
    margin: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Required reward margin per grade of a row's `strength`; the row's own `margin` is added."""
    tie_margin: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Rewards that differ by less are likely a tie (log θ in Rao and Kupper, 1967). 0 counts a tie as half a win for each side."""
