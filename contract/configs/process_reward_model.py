"""What a process reward model's training may be told."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.training import FileTrainingConfig


class ProcessRewardModelConfig(FileTrainingConfig):
    """A process reward model: how good each turn is, read at its end."""

    kind: Literal["process_reward_model"] = "process_reward_model"
    error_weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """How much more a bad turn counts than another. Raise it where errors are rare and are missed."""
    first_error_only: bool = True
    """Learn nothing from turns after the first error, which few annotators judge alike (Lightman et al., 2023)."""
