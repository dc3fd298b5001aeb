"""How long a run will take: the arithmetic of its passes over what the worker's device does in a second. Right within a factor of two or so.

A pass forward takes 2 operations a weight and token, a pass backward twice as many (Kaplan et al., 2020, section 2.1); under adapters the frozen
weights need no gradient, which is half of the backward pass. Attention's own share is left out: it is small below some 10,000 tokens.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from contract.configs import DpoConfig, FileTrainingConfig, KtoConfig, RewardModelConfig
from workers.bridge.memory_estimate import ModelFacts

STEP_SECONDS = 0.05
"""Of a step besides its arithmetic: reading rows, the optimizer, telling."""
EVALUATIONS = 11
"""Before, at each tenth, and after."""
USED = 0.35
"""Share of a device's peak that training reaches."""
GPU_TFLOPS = {
    "B200": 2250,
    "H200": 989,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "L40": 181,
    "L4": 121,
    "A10": 125,
    "A6000": 155,
    "RTX 6000": 364,
    "RTX 5090": 419,
    "RTX 4090": 165,
    "RTX 3090": 71,
    "V100": 15.7,
    "T4": 8.1,
}
"""Peak of dense bfloat16 (float32 where there is none, as `auto` computes there) matrix products, from the makers' data sheets."""
SIDE = 768


def seconds_of(
    config: FileTrainingConfig, facts: ModelFacts, *, rows: int, validation_rows: int, row_tokens: int, tflops: float
) -> float:
    """Of training alone, without loading. row_tokens: length of a usual row; tflops: 10¹² operations a second that the device really does."""
    optimizer = config.optimizer
    tokens_a_row = (2 if isinstance(config, DpoConfig | KtoConfig | RewardModelConfig) else 1) * min(
        row_tokens, optimizer.max_length
    )
    rows_a_step = optimizer.batch_size * optimizer.gradient_accumulation
    steps = optimizer.max_steps or max(1, round(optimizer.epochs * rows / rows_a_step))
    reference = 2 if isinstance(config, DpoConfig | KtoConfig) else 0
    backward = 2 if config.lora else 4
    recomputed = 2 if optimizer.gradient_checkpointing else 0
    training = steps * rows_a_step * tokens_a_row * (2 + backward + recomputed + reference)
    evaluating = EVALUATIONS * validation_rows * tokens_a_row * (2 + reference)
    return steps * STEP_SECONDS + facts.parameters * (training + evaluating) / (tflops * 1e12)


def gpu_tflops(name: str) -> float | None:
    """What a GPU of this name really does; None for one that is not known."""
    for known, peak in GPU_TFLOPS.items():
        if known in name:
            return peak * USED
    return None


@cache
def cpu_tflops() -> float:
    """What this machine's processor does now, measured in a moment."""
    left = np.ones((SIDE, SIDE), dtype=np.float32)
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        left @ left
        best = max(best, 2 * SIDE**3 / (time.perf_counter() - began) / 1e12)
    return best * USED
