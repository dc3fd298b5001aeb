"""How a first model is made that learns: the settings that the demo and `make bench-learning` share. Imports nothing.

The demonstrations are imperfect on purpose: about half the time they take a tempting shortcut, so that the model they make keeps a choice
that reinforcement can sharpen. One of near-perfect demonstrations has almost no entropy left, and nothing to learn from.
"""

from typing import Any

DEMONSTRATOR = "demonstrator"
LEVELS = ("L1", "L2", "L3")
DEMONSTRATION_TASKS = 1500
DEMONSTRATIONS_A_TASK = 2

MODEL: dict[str, Any] = {}
"""The trainer's own defaults for a model from scratch."""
SFT: dict[str, Any] = {
    "learning_rate": 2e-3,
    "batch_size": 4,
    "gradient_accumulation": 4,
    "max_steps": 960,
    "warmup_steps": 30,
}
"""Sixteen rows of mixed length a step: it begins to copy names and ids out of its context after some 150, and still gets better after 480."""
SAMPLING: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 48}
BUDGET: dict[str, Any] = {"steps": 10}

GRPO: dict[str, Any] = {
    "optimizer": {
        "learning_rate": 3e-4,
        "batch_size": 16,
        "gradient_accumulation": 2,
        "max_steps": 40,
        "schedule": "constant",
    },
    "samples": 8,
    "sampling": SAMPLING,
    "budget": BUDGET,
    "held_out": 60,
    "evaluate_every": 10,
}
DPO: dict[str, Any] = {"learning_rate": 1e-4, "batch_size": 8, "epochs": 1.0, "warmup_steps": 5}
REWARD_MODEL: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 8, "epochs": 2.0, "warmup_steps": 10}
PRM: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 16, "epochs": 1.0, "warmup_steps": 10}
