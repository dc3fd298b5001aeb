"""What REINFORCE with a leave-one-out baseline may be told."""

from typing import Annotated, Literal

from contract.configs.declaration import Setting
from contract.configs.online import OnlineConfig


class RlooConfig(OnlineConfig):
    """REINFORCE with a leave-one-out baseline."""

    kind: Literal["rloo"] = "rloo"
    normalize: Annotated[bool, Setting("Normalize advantages")] = False
    """Bring the advantages of a step to mean 0 and spread 1."""
