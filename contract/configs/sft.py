"""What supervised fine-tuning may be told."""

from typing import Annotated, Literal

from contract.configs.declaration import Setting
from contract.configs.training import FileTrainingConfig, ModelConfig


class SftConfig(FileTrainingConfig):
    """Supervised fine-tuning on the policy's own messages."""

    kind: Literal["sft"] = "sft"
    model: Annotated[ModelConfig, Setting("Model")]
    """The policy or model to begin from; alone of all algorithms this one can begin with a new model."""
