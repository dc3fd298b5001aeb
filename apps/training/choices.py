"""What the settings of a run may be: ranges, choices, and which algorithms have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from apps.training.models import Run


class InvalidSetting(ValueError):
    """One setting is unknown or out of range. `field` names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class Range(NamedTuple):
    """The values a number may have, both ends included."""

    low: float
    high: float


RANGES: Mapping[str, Range] = {
    "learning_rate": Range(1e-8, 1.0),
    "batch_size": Range(1, 1024),
    "gradient_accumulation": Range(1, 1024),
    "epochs": Range(0.01, 100),
    "max_steps": Range(0, 1_000_000),
    "max_length": Range(8, 1_000_000),
    "warmup_steps": Range(0, 100_000),
    "beta": Range(0.001, 10),
    "label_smoothing": Range(0, 0.49),
    "desirable_weight": Range(0.001, 1000),
    "undesirable_weight": Range(0.001, 1000),
    "margin": Range(0, 10),
    "tie_margin": Range(0, 10),
    "error_weight": Range(0.001, 1000),
    "tasks": Range(1, 1_000_000),
    "samples": Range(2, 1024),
    "rounds": Range(1, 20),
    "turns": Range(1, 1000),
    "turn_tokens": Range(1, 100_000),
    "lora_rank": Range(1, 1024),
    "checkpoint_every": Range(1, 1_000_000),
    "seed": Range(0, 2**31 - 1),
}
METHODS = {"full": "Every weight", "lora": "LoRA adapters", "qlora": "QLoRA: adapters on 4-bit weights"}
LOSSES: Mapping[str, tuple[str, ...]] = {
    Run.Algorithm.DPO: (
        *("sigmoid", "sigmoid_norm", "hinge", "ipo", "robust", "exo_pair", "nca_pair", "bco_pair", "sppo_hard"),
        *("aot", "aot_unpaired", "apo_zero", "apo_down", "discopop"),
    ),
    Run.Algorithm.KTO: ("kto", "apo_zero_unpaired"),
}
"""By TRL's names, the usual one first."""
CREDITS = {"trajectory": "The whole rollout alike", "turn": "Each turn, by what came of it"}
SCOPES = {"trajectory": "Everything after the shared prefix", "step": "The first turn after it alone"}
ONLY_FOR: Mapping[str, tuple[str, ...]] = {
    "beta": (Run.Algorithm.DPO, Run.Algorithm.KTO),
    "loss": (Run.Algorithm.DPO, Run.Algorithm.KTO),
    "label_smoothing": (Run.Algorithm.DPO,),
    "scope": (Run.Algorithm.DPO,),
    "desirable_weight": (Run.Algorithm.KTO,),
    "undesirable_weight": (Run.Algorithm.KTO,),
    "margin": (Run.Algorithm.REWARD_MODEL,),
    "tie_margin": (Run.Algorithm.REWARD_MODEL,),
    "error_weight": (Run.Algorithm.PROCESS_REWARD_MODEL,),
    "environment": Run.ONLINE,
    "levels": Run.ONLINE,
    "tasks": Run.ONLINE,
    "samples": Run.ONLINE,
    "turns": Run.ONLINE,
    "turn_tokens": Run.ONLINE,
    "credit": (Run.Algorithm.GRPO,),
    "rounds": (Run.Algorithm.STAR,),
}
"""Settings that not every algorithm has."""
