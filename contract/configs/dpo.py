"""Config of direct preference optimization."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Setting
from contract.configs.errors import InvalidField
from contract.configs.training import FileTrainingConfig

DpoLoss = Literal[
    "sigmoid",
    "sigmoid_norm",
    "hinge",
    "ipo",
    "robust",
    "exo_pair",
    "nca_pair",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
]
SMOOTHED = ("robust", "exo_pair", "aot", "aot_unpaired")
SCOPES = {"trajectory": "Everything after the shared prefix", "step": "Only the first turn after it"}


class DpoConfig(FileTrainingConfig):
    """Direct preference optimization."""

    kind: Literal["dpo"] = "dpo"
    beta: Annotated[float, Field(ge=0.001, le=10), Setting("Beta", basic=True)] = 0.1
    """How strongly to keep the policy close to the base policy (the inverse temperature of the implicit reward)."""
    loss: Annotated[DpoLoss, Setting(basic=True)] = "sigmoid"
    """The pairwise loss, under TRL's name. `robust` and `exo_pair` assume that a share of `label_smoothing` of the labels is flipped."""
    label_smoothing: Annotated[float, Field(ge=0, le=0.49)] = 0.0
    """Assumed share of wrong labels, for the losses that use one: robust, exo_pair, aot and aot_unpaired."""
    scope: Annotated[Literal["trajectory", "step"], Setting("Learns from", labels=SCOPES)] = "trajectory"
    """Which part of each side is compared: everything after the shared prefix, or only the first turn after it."""
    sft_weight: Annotated[float, Field(ge=0, le=1000), Setting("SFT weight")] = 0.0
    """Weight of the SFT loss on chosen messages (RPO, Pang et al., 2024), which keeps their likelihood from falling."""

    def check(self) -> None:
        if self.label_smoothing and self.loss not in SMOOTHED:
            raise InvalidField("label_smoothing", f"the loss {self.loss!r} doesn't use one; {', '.join(SMOOTHED)} do")
        if self.loss == "exo_pair" and not self.label_smoothing:
            raise InvalidField("label_smoothing", "got 0, expected above 0 for the loss 'exo_pair'")
