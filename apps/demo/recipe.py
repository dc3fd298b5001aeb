"""How a first model is made that learns: the settings that the demo and `make bench-learning` share. Imports nothing.

The demonstrations are imperfect on purpose: wherever a shortcut tempts they take it three times in ten, so that the model they make keeps a
choice that reinforcement can sharpen. One of near-perfect demonstrations has almost no entropy left, and nothing to learn from.
"""

from typing import Any

DEMONSTRATOR = "demonstrator"
LEVELS = ("L1", "L2", "L3")
DEMONSTRATION_TASKS = 6000
"""One run each. Of 3,000 runs the model learns the accidents by heart."""

MODEL: dict[str, Any] = {}
"""The trainer's own defaults for a model from scratch."""
SFT: dict[str, Any] = {
    "learning_rate": 3e-3,
    "batch_size": 8,
    "max_steps": 800,
    "warmup_steps": 30,
}
"""Small steps, many of them: that it can copy ids out of its context it finds after some 200."""
SAMPLING: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 48}
BUDGET: dict[str, Any] = {"steps": 10}

ONLINE: dict[str, Any] = {
    "optimizer": {
        "learning_rate": 3e-4,
        "batch_size": 16,
        "gradient_accumulation": 4,
        "max_steps": 60,
        "schedule": "linear",
    },
    "samples": 8,
    "sampling": SAMPLING,
    "budget": BUDGET,
    "rewards": {"terms": [{"component": "outcome", "measure": "success"}]},
    "mask_cut_off": True,
    "held_out": 60,
    "evaluate_every": 10,
}
"""GRPO and RLOO, by the rules of the presets."""
SHORT: dict[str, Any] = {
    **ONLINE,
    "optimizer": {**ONLINE["optimizer"], "max_steps": 20, "schedule": "constant"},
    "evaluate_every": 5,
}
"""A third of the time, and for that a rate that doesn't fall: what the demo has time for."""
DPO: dict[str, Any] = {"learning_rate": 1e-4, "batch_size": 8, "epochs": 1.0, "warmup_steps": 5}
REWARD_MODEL: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 8, "epochs": 2.0, "warmup_steps": 10}
PRM: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 8, "epochs": 1.0, "warmup_steps": 10}
