"""Config of process reward model training."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.training import FileTrainingConfig


class ProcessRewardModelConfig(FileTrainingConfig):
    """A process reward model: scores each turn at its last token."""

    kind: Literal["process_reward_model"] = "process_reward_model"
    error_weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """Weight of a bad turn relative to others. Raise it if errors are rare and get missed."""
    first_error_only: bool = True
    """Ignore turns after the first error, on which annotators rarely agree (Lightman et al., 2023)."""
