"""Training settings for a first model that can learn, shared by the demo and `make bench-learning`. Imports nothing.

The demonstrations are imperfect on purpose: wherever a shortcut tempts, they take it three times in ten, so that the resulting model keeps
choices that reinforcement learning can sharpen. A model of near-perfect demonstrations has almost no entropy left, and nothing to learn.
"""

from typing import Any

DEMONSTRATOR = "demonstrator"
LEVELS = ("L1", "L2", "L3")
DEMONSTRATION_TASKS = 6000
"""One trajectory each. With only 3,000, the model memorizes their accidental details."""

MODEL: dict[str, Any] = {}
"""The trainer's defaults for a model from scratch."""
SFT: dict[str, Any] = {
    "learning_rate": 3e-3,
    "batch_size": 8,
    "max_steps": 800,
    "warmup_steps": 30,
}
"""Many small steps: the model only discovers after about 200 that it can copy ids from its context."""
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
    "keep_best": True,
    "held_out": 60,
    "evaluate_every": 10,
}
"""For GRPO and RLOO, following the rules of the presets."""
SHORT: dict[str, Any] = {
    **ONLINE,
    "optimizer": {**ONLINE["optimizer"], "max_steps": 20, "schedule": "constant"},
    "evaluate_every": 5,
}
"""For the demo, which has time for only a third of the steps, and therefore a constant learning rate."""
DPO: dict[str, Any] = {"learning_rate": 1e-4, "batch_size": 8, "epochs": 1.0, "warmup_steps": 5}
REWARD_MODEL: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 8, "epochs": 2.0, "warmup_steps": 10}
PRM: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 8, "epochs": 1.0, "warmup_steps": 10}
