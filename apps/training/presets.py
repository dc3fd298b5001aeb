"""Starting points of a run: partial configs, and typical learning rates of the algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from apps.training.models import Run
from contract.configs import OnlineConfig, TrainingConfig
from contract.configs.fields import field_at
from contract.configs.paths import at, replaced, value_text

METHODS = {"full": "All weights", "lora": "LoRA adapters", "qlora": "QLoRA: adapters on 4-bit weights"}
SMALL_MODEL = 20_000_000
"""Models with fewer parameters need the large learning rates of training from scratch."""
SMALL_TURN, TURN = 48, 512
"""Max tokens of a turn. A reasoning model needs several hundred: if it's cut off while thinking, it never calls a tool, and no rollout succeeds."""
PATIENCE_SECONDS = 3600.0
"""Time limit of a training rollout. All rollouts of a step wait for each other's turns, so the time depends on the machine rather than the policy;
a tight limit would penalize progress on slow machines.
"""
SMALL_LENGTH, LENGTH = 2048, 4096
"""Max tokens of a row. An agent's trajectory begins with its tools and rules, and longer rows are dropped from training."""
LORA_RANK = 16


@dataclass(frozen=True)
class Preset:
    """A named starting point."""

    name: str
    title: str
    description: str
    epochs: float
    max_steps: int = 0
    online_steps: int = 20

    def config(self, *, algorithm: str, method: str, parameters: int | None) -> dict[str, Any]:
        """The preset's settings for this algorithm and model size in parameters (None if unknown); the rest keep their defaults."""
        small = parameters is not None and parameters < SMALL_MODEL
        if algorithm in (Run.Algorithm.GRPO, Run.Algorithm.RLOO):
            config = self._online(small=small)
        else:
            config = self._rows(small=small)
        config["optimizer"] |= {
            "learning_rate": _learning_rate(algorithm, method, small=small),
            "gradient_checkpointing": not small,
        }
        if algorithm in Run.ONLINE:
            config["sampling"] = {"max_new_tokens": SMALL_TURN if small else TURN}
            config["budget"] = {"seconds": PATIENCE_SECONDS}
        if algorithm == Run.Algorithm.STAR:
            config["tasks"] = {"count": 200}
        if method != "full":
            config["lora"] = {"rank": LORA_RANK, "alpha": 2.0 * LORA_RANK, "quantized": method == "qlora"}
        return config

    def _rows(self, *, small: bool) -> dict[str, Any]:
        optimizer = {
            "epochs": self.epochs,
            "max_steps": self.max_steps,
            "max_length": SMALL_LENGTH if small else LENGTH,
            "batch_size": 16 if small else 4,
            "gradient_accumulation": 1 if small else 4,
        }
        return {"optimizer": optimizer, "checkpoints": {"every": 10 if self.max_steps else 50}}

    def _online(self, *, small: bool) -> dict[str, Any]:
        """Rollouts cost more than updates, so the length is in steps of 32 rollouts (4 tasks with 8 each), or 64 where rollouts are cheap."""
        optimizer = {
            "max_steps": self.online_steps,
            "batch_size": 16 if small else 4,
            "gradient_accumulation": 4 if small else 8,
        }
        config: dict[str, Any] = {
            "optimizer": optimizer,
            "checkpoints": {"every": 10},
            "rewards": {"terms": [{"component": "outcome"}]},
        }
        for rule in ONLINE_RULES:
            config = replaced(config, rule.setting, rule.value)
        return config


@dataclass(frozen=True)
class Rule:
    """A setting shared by every preset of online training, and the reason for it."""

    setting: str
    value: Any
    why: str


OUTCOME_MEASURE = "rewards.terms[0].measure"
"""Path in a preset, whose only reward term is the outcome."""
ONLINE_RULES = (
    Rule(
        OUTCOME_MEASURE,
        "success",
        "a graded reward that punishes a wrong action more than none teaches a policy not to act",
    ),
    Rule(
        "mask_cut_off",
        True,
        "rollouts that end in a cut-off turn are the longest, so their noise would outweigh the rest in the loss",
    ),
    Rule("optimizer.schedule", "linear", "a rate that falls to 0 lets a long run settle"),
    Rule("keep_best", True, "a policy that follows a learned reward too far ends worse than it was"),
)
"""See `docs/learning.md` for what was measured and what wasn't."""


class RuleKept(NamedTuple):
    """A rule that a config follows, for the page."""

    title: str
    value: str
    why: str


def rules_kept(config: TrainingConfig) -> list[RuleKept]:
    """The rules that the config follows; empty unless it's online training."""
    if not isinstance(config, OnlineConfig):
        return []
    followed = []
    for rule in ONLINE_RULES:
        path = config.rewards.outcome_measure if rule.setting == OUTCOME_MEASURE else rule.setting
        field = field_at(config, path)
        if field is not None and at(config, path) == rule.value:
            followed.append(RuleKept(field.title, value_text(rule.value), rule.why))
    return followed


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "quick", "Quick check", "20 steps: does it load, fit in memory, and learn at all?", epochs=1.0, max_steps=20
        ),
        Preset(
            "standard",
            "Standard",
            "One pass over the rows, or 60 steps of rollouts: enough for most.",
            epochs=1.0,
            online_steps=60,
        ),
        Preset(
            "thorough",
            "Thorough",
            "Three passes over the rows, or 200 steps of rollouts: for small or precious data.",
            epochs=3.0,
            online_steps=200,
        ),
    )
}


def _learning_rate(algorithm: str, method: str, *, small: bool) -> float:
    """Typical values: lower for preference learning than for imitation, higher for adapters than for full weights."""
    small_one, adapters, full_model = LEARNING_RATES[Run.Algorithm(algorithm)]
    if small:
        return small_one
    return full_model if method == "full" else adapters


LEARNING_RATES: Mapping[str, tuple[float, float, float]] = {
    Run.Algorithm.SFT: (2e-3, 1e-4, 1e-5),
    Run.Algorithm.DPO: (1e-4, 2e-5, 1e-6),
    Run.Algorithm.KTO: (1e-4, 2e-5, 1e-6),
    Run.Algorithm.REWARD_MODEL: (1e-3, 1e-4, 1e-5),
    Run.Algorithm.PROCESS_REWARD_MODEL: (1e-3, 1e-4, 1e-5),
    Run.Algorithm.GRPO: (3e-4, 2e-5, 1e-6),
    Run.Algorithm.RLOO: (3e-4, 2e-5, 1e-6),
    Run.Algorithm.STAR: (2e-3, 1e-4, 1e-5),
}
"""Learning rates for a small model, for adapters, and for full weights."""
