"""How much memory, disk and time a run will take, from the shape of its model. Reads headers, loads nothing, imports no torch.

The figures are for one device and about right, not exact: activations follow Korthikanti et al. (2022), with memory-efficient attention. Time is the
arithmetic of a run's passes over what the worker's device does in a second: a pass forward takes 2 operations a weight and token, and 2 a layer, token,
earlier token and width for attention; a pass backward takes twice as many (Kaplan et al., 2020, section 2.1); under adapters the frozen weights need no
gradient, which is half of the backward pass. It is used only where no earlier run tells better (`workers/bridge/forecasts.py`).
"""

from __future__ import annotations

import json
import os
import struct
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from contract.configs import (
    DpoConfig,
    FileTrainingConfig,
    KtoConfig,
    ProcessRewardModelConfig,
    RewardModelConfig,
    ScratchConfig,
    TrainingConfig,
)

ADAM_BYTES = 12
"""Per trained weight: its gradient and Adam's two moments, all float32."""
NF4_BYTES = 0.55
"""Four bits and, with double quantization, about 0.4 bits of scales (Dettmers et al., 2023)."""
OVERHEAD_MB = 900.0
"""Of a process that has loaded torch and transformers; a CUDA context takes about as much."""
TILE_TOKENS, TILE_WORDS = 4096, 32_768
"""TRL computes log-probabilities in tiles: never are there logits of more tokens and words of the vocabulary at once."""
TILE_COPIES = 8
"""Of a tile in float32, as measured on a CPU at the end of a pass backward; a GPU takes less."""
MAX_HEADER_BYTES = 100 * 1024 * 1024


class Unreadable(ValueError):
    """The folder holds no model whose size could be read."""


@dataclass(frozen=True)
class ModelFacts:
    """The shape of a decoder."""

    parameters: int
    hidden: int
    layers: int
    intermediate: int
    vocabulary: int


@dataclass(frozen=True)
class Estimate:
    """What a run takes at its peak."""

    memory_mb: float
    disk_mb: float


def facts_of_folder(folder: Path) -> ModelFacts:
    """From config.json and the headers of the weights. Raises Unreadable, naming what is missing."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError:
        raise Unreadable(f"{folder} has no config.json") from None
    except (ValueError, RecursionError):
        raise Unreadable(f"config.json in {folder} is no JSON") from None
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise Unreadable(f"{folder} has no *.safetensors (other formats can run code and are not loaded)")
    return facts_of_config(config, sum(_parameters_in(path) for path in weights))


def facts_of_config(config: dict[str, Any], parameters: int) -> ModelFacts:
    """From a decoded config.json; models of images and text keep the decoder's shape in text_config."""
    shape = config.get("text_config") or config
    hidden = int(shape.get("hidden_size") or 0)
    return ModelFacts(
        parameters=parameters,
        hidden=hidden,
        layers=int(shape.get("num_hidden_layers") or 0),
        intermediate=int(shape.get("intermediate_size") or 4 * hidden),
        vocabulary=int(shape.get("vocab_size") or 0),
    )


def facts_of_scratch(scratch: ScratchConfig) -> ModelFacts:
    """Of a model that is yet to be made, with tied embeddings."""
    attention = 4 * scratch.hidden * scratch.hidden
    layer = attention + 3 * scratch.hidden * scratch.intermediate
    return ModelFacts(
        parameters=int(scratch.layers * layer + scratch.vocabulary * scratch.hidden),
        hidden=scratch.hidden,
        layers=scratch.layers,
        intermediate=scratch.intermediate,
        vocabulary=scratch.vocabulary,
    )


def estimate(config: TrainingConfig, facts: ModelFacts, *, row_tokens: int, has_bf16: bool) -> Estimate:
    """What training takes. row_tokens: length of a usual row, tokens; longer than max_length counts as that. has_bf16: the device's own."""
    optimizer = config.optimizer
    compute_bytes = 2 if optimizer.precision == "bfloat16" or (optimizer.precision == "auto" and has_bf16) else 4
    trained = _lora_parameters(facts, config.lora.rank) if config.lora else facts.parameters
    weights = facts.parameters * _bytes_of_a_weight(config, compute_bytes) + trained * (4 if config.lora else 0)
    has_reference = isinstance(config, DpoConfig | KtoConfig) and not config.lora
    reference = facts.parameters * 4 if has_reference else 0  # as the weights that are trained
    pairs = isinstance(config, DpoConfig | KtoConfig | RewardModelConfig)  # KTO reads each row twice, once mismatched
    tokens = optimizer.batch_size * (2 if pairs else 1) * min(row_tokens, optimizer.max_length)
    a_layer = (9 * facts.hidden + 3 * facts.intermediate) * compute_bytes
    kept = (
        facts.layers * facts.hidden * compute_bytes + a_layer
        if optimizer.gradient_checkpointing
        else facts.layers * a_layer
    )
    predicts = not isinstance(config, RewardModelConfig | ProcessRewardModelConfig)
    tile = min(tokens, TILE_TOKENS) * min(facts.vocabulary, TILE_WORDS) if predicts else 0
    memory = weights + trained * ADAM_BYTES + reference + tokens * kept + TILE_COPIES * 4 * tile
    checkpoint = trained * 12  # the weights and Adam's moments
    disk = (config.checkpoints.keep + 1) * checkpoint + facts.parameters * compute_bytes
    return Estimate(memory_mb=round(memory / 1e6 + OVERHEAD_MB), disk_mb=round(disk / 1e6, 1))


def _bytes_of_a_weight(config: TrainingConfig, compute_bytes: int) -> float:
    """Float32 where weights are trained; under adapters as they are computed with, or four bits and their scales."""
    if config.lora is None:
        return 4
    return NF4_BYTES if config.lora.quantized else compute_bytes


def _lora_parameters(facts: ModelFacts, rank: int) -> int:
    """Adapters on every linear layer: four of attention, three of the feed-forward."""
    return facts.layers * rank * (8 * facts.hidden + 3 * (facts.hidden + facts.intermediate))


def _parameters_in(path: Path) -> int:
    """The weights in a safetensors file, counted from the shapes in its header."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
        if not 0 < length < MAX_HEADER_BYTES:
            raise Unreadable(f"{path.name} is no safetensors file")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise Unreadable(f"{path.name} is cut off or no safetensors file") from None
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            count = 1
            for size in tensor["shape"]:
                count *= size
            total += count
    return total


TIMEOUT_SECONDS = 6.0


class NotOnHub(ValueError):
    """The hub answered, and there is no such model (or no access to it)."""


def facts_of_hub(model: str, revision: str | None) -> ModelFacts | None:
    """The shape of a hub model; None when the hub cannot be reached. Raises NotOnHub."""
    try:
        weights = HfApi().model_info(model, revision=revision, timeout=TIMEOUT_SECONDS).safetensors
        config = Path(hf_hub_download(model, "config.json", revision=revision, etag_timeout=TIMEOUT_SECONDS))
    except (RepositoryNotFoundError, EntryNotFoundError) as error:
        if isinstance(error, LocalEntryNotFoundError):
            return None
        raise NotOnHub(
            f"the hub has no model {model!r} that this worker may see (private ones need HF_TOKEN)"
        ) from None
    except (HfHubHTTPError, OSError, RuntimeError):
        return None
    if weights is None:
        raise NotOnHub(f"{model!r} has no safetensors on the hub; other formats can run code and are not loaded")
    return facts_of_config(json.loads(config.read_text(encoding="utf-8")), weights.total)


STEP_SECONDS = 0.05
"""Of a step besides its arithmetic: reading rows, the optimizer, telling."""
EVALUATIONS = 11
"""Before, at each tenth, and after."""
USED = 0.35
"""Share of a GPU's peak that training reaches."""
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
CPU_USED = 0.26
"""The same of a processor, as 800 steps of the demo's first model took on two cores (tests/workers/test_forecasts.py has the figures)."""
SIDE = 64
"""Of a matrix so small that one thread multiplies it."""
PROBES, PRODUCTS = 5, 2000


PADDING = 1.25
"""Rows of a batch are padded to the longest of them: so much longer than the usual one, as measured on chats with tools."""


def seconds_of(
    config: FileTrainingConfig, facts: ModelFacts, *, rows: int, validation_rows: int, row_tokens: float, tflops: float
) -> float:
    """Of training alone, without loading. row_tokens: of a usual chat; tflops: 10¹² operations a second that the device really does."""
    optimizer = config.optimizer
    sides = sides_of(config)
    tokens = min(row_tokens * PADDING, optimizer.max_length)
    steps = config.steps(rows)
    reference = 2 if isinstance(config, DpoConfig | KtoConfig) else 0
    backward = 2 if config.lora else 4
    recomputed = 2 if optimizer.gradient_checkpointing else 0
    training = steps * config.rows_a_step * sides * tokens * (2 + backward + recomputed + reference)
    evaluating = EVALUATIONS * validation_rows * sides * tokens * (2 + reference)
    a_token = facts.parameters + facts.layers * facts.hidden * tokens
    return steps * STEP_SECONDS + a_token * (training + evaluating) / (tflops * 1e12)


def sides_of(config: FileTrainingConfig) -> int:
    """Chats that a row makes the model read: KTO reads each once with a prompt that isn't its own."""
    return 2 if isinstance(config, DpoConfig | KtoConfig | RewardModelConfig) else 1


def gpu_tflops(name: str) -> float | None:
    """What a GPU of this name really does; None for one that is not known."""
    for known, peak in GPU_TFLOPS.items():
        if known in name:
            return peak * USED
    return None


@cache
def cpu_tflops() -> float:
    """What this machine's processor does for training, with nothing else at work.

    Counted in processor time of one thread, which is the same however busy the machine is.
    """
    left = np.ones((SIDE, SIDE), dtype=np.float32)
    out = np.empty_like(left)
    speeds = []
    for _ in range(PROBES):
        began = time.thread_time()
        for _ in range(PRODUCTS):
            np.matmul(left, left, out=out)
        speeds.append(PRODUCTS * 2 * SIDE**3 / (time.thread_time() - began) / 1e12)
    return median(speeds) * len(os.sched_getaffinity(0)) * CPU_USED
