"""What a reward model's training may be told."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.training import FileTrainingConfig


class RewardModelConfig(FileTrainingConfig):
    """A Bradley–Terry reward model."""

    kind: Literal["reward_model"] = "reward_model"
    center: Annotated[float, Field(ge=0, le=10)] = 0.01
    """Weight of the squared mean reward, which keeps rewards near zero (Eisenstein et al., 2023)."""
    soft_labels: bool = True
    """Learn from `soft_label` and `label_weight` where rows have them; off takes the chosen side for certain and its `weight`."""
    margin: Annotated[float, Field(ge=0, le=10)] = 0.0
    """The least difference of rewards to ask for, for each grade of a row's `strength`; a row's own `margin` is added."""
    tie_margin: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Rewards that differ by less are likely a tie (log θ of Rao and Kupper, 1967). 0 counts a tie as half a win for each side."""
