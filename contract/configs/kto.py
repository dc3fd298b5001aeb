"""What Kahneman-Tversky optimization may be told."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Setting
from contract.configs.errors import InvalidField
from contract.configs.training import FileTrainingConfig


class KtoConfig(FileTrainingConfig):
    """Kahneman-Tversky optimization: from trajectories that are desirable or not, without pairs."""

    kind: Literal["kto"] = "kto"
    beta: Annotated[float, Field(ge=0.001, le=10), Setting("Beta", basic=True)] = 0.1
    """How strongly to stay near the base policy."""
    loss: Literal["kto", "apo_zero_unpaired"] = "kto"
    """`apo_zero_unpaired` takes the base itself as the point of reference and needs no estimate of the divergence."""
    desirable_weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """How much a desirable row counts."""
    undesirable_weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """How much an undesirable row counts. Where one kind is rarer, raise its weight until both count alike."""

    def check(self) -> None:
        if self.loss == "kto" and self.optimizer.batch_size < 2:
            raise InvalidField(
                "optimizer.batch_size",
                "got 1, expected 2 or more: the divergence is estimated from the batch's other rows",
            )
