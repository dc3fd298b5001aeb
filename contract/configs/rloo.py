"""Config of REINFORCE with a leave-one-out baseline."""

from typing import Annotated, Literal

from contract.configs.declaration import Setting
from contract.configs.online import OnlineConfig


class RlooConfig(OnlineConfig):
    """REINFORCE with a leave-one-out baseline."""

    kind: Literal["rloo"] = "rloo"
    normalize: Annotated[bool, Setting("Normalize advantages")] = False
    """Normalize the advantages of a step to mean 0 and standard deviation 1."""
