"""Config of supervised fine-tuning."""

from typing import Annotated, Literal

from contract.configs.declaration import Setting
from contract.configs.training import FileTrainingConfig, ModelConfig


class SftConfig(FileTrainingConfig):
    """Supervised fine-tuning on the policy's own messages."""

    kind: Literal["sft"] = "sft"
    model: Annotated[ModelConfig, Setting("Model")]
    """The policy or model to start from. Only SFT can start from a new model."""
