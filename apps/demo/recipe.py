"""How a first model is made that learns: the settings that the demo and `make bench-learning` share. Imports nothing.

The demonstrations are imperfect on purpose: about half the time they take a tempting shortcut, so that the model they make keeps a choice
that reinforcement can sharpen. One of near-perfect demonstrations has almost no entropy left, and nothing to learn from.
"""

from typing import Any

DEMONSTRATOR = "demonstrator"
DEMONSTRATION_TASKS = 800
DEMONSTRATIONS_A_TASK = 2

SFT: dict[str, Any] = {"learning_rate": 2e-3, "batch_size": 16, "max_steps": 400, "warmup_steps": 30}
SAMPLING: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 64}
BUDGET: dict[str, Any] = {"steps": 12}
