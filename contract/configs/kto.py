"""Config of Kahneman-Tversky optimization."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Setting
from contract.configs.errors import InvalidField
from contract.configs.training import FileTrainingConfig


class KtoConfig(FileTrainingConfig):
    """Kahneman-Tversky optimization: learns from single trajectories labeled desirable or not, without pairs."""

    kind: Literal["kto"] = "kto"
    beta: Annotated[float, Field(ge=0.001, le=10), Setting("Beta", basic=True)] = 0.1
    """How strongly to keep the policy close to the base policy."""
    loss: Literal["kto", "apo_zero_unpaired"] = "kto"
    """`apo_zero_unpaired` uses the base policy itself as the reference point and needs no KL estimate."""
    desirable_weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """Weight of a desirable row."""
    undesirable_weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """Weight of an undesirable row. If one kind is rarer, raise its weight until both contribute equally."""

    def check(self) -> None:
        if self.loss == "kto" and self.optimizer.batch_size < 2:
            raise InvalidField(
                "optimizer.batch_size",
                "got 1, expected 2 or more: the KL divergence is estimated from the batch's other rows",
            )
