"""GRPO without the presets' choices, as a baseline: the environment's graded reward, cut-off turns in the loss, 20 steps at a constant rate."""

from typing import Any

from apps.demo import recipe

GRADED: dict[str, Any] = {"terms": [{"component": "outcome"}]}
PLAIN: dict[str, Any] = {**recipe.SHORT, "rewards": GRADED, "mask_cut_off": False, "keep_best": False}
PLAIN_RLOO: dict[str, Any] = {
    **PLAIN,
    "optimizer": {**PLAIN["optimizer"], "max_steps": 30},
    "evaluate_every": 10,
}
"""With as many steps as GRPO it learned less; with one first model much less: 16 points instead of 29."""
