"""Estimates a run's memory, disk space, and time from the shape of its model. Reads headers only; doesn't import torch.

The figures are approximate and for one device: activations follow Korthikanti et al. (2022), with memory-efficient attention. Time is the
operations of a run's passes divided by the device's throughput: a forward pass takes 2 operations per weight and token, plus 2 per layer, token,
earlier token, and width for attention; a backward pass takes twice as many (Kaplan et al., 2020, section 2.1); with adapters, frozen weights
need no gradient, which is half of the backward pass. It's used only if there is no similar earlier run (`workers/bridge/forecasts.py`).
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
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError, which its HTTP client raises without an answer
    EntryNotFoundError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from contract.configs import (
    DpoConfig,
    FileTrainingConfig,
    KtoConfig,
    ProcessRewardModelConfig,
    RewardModelConfig,
    ScratchConfig,
    TrainingConfig,
)
from workers.bridge.stopwatch import evaluations_in

ADAM_BYTES = 12
"""Bytes per trained weight for its gradient and Adam's two moments, all float32."""
NF4_BYTES = 0.55
"""Bytes per weight: 4 bits plus, with double quantization, about 0.4 bits of scales (Dettmers et al., 2023)."""
OVERHEAD_MB = 900.0
"""Memory of a process with torch and transformers loaded; a CUDA context takes about as much."""
TILE_TOKENS, TILE_WORDS = 4096, 32_768
"""TRL computes log-probabilities in tiles, which bounds the logits in memory at once."""
TILE_COPIES = 8
"""Float32 copies of a tile, measured on a CPU at the end of a backward pass; a GPU needs fewer."""
MAX_HEADER_BYTES = 100 * 1024 * 1024
MAX_CONFIG_BYTES = 4 << 20
"""Anybody may put a config.json of any size on the hub."""
MAX_SIZE = 1 << 40
"""Exceeds every size in a config.json; the products of such sizes are still floats."""


class Unreadable(ValueError):
    """The folder has no model with a readable size."""


@dataclass(frozen=True)
class ModelShape:
    """The shape of a decoder."""

    parameters: int
    hidden: int
    layers: int
    intermediate: int
    vocabulary: int


@dataclass(frozen=True)
class Estimate:
    """Peak requirements of a run."""

    memory_mb: float
    disk_mb: float


def shape_of_folder(folder: Path) -> ModelShape:
    """The shape of a folder's model, from config.json and the headers of the weights. Raises Unreadable, which names what is missing."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError:
        raise Unreadable(f"{folder} has no config.json") from None
    except (ValueError, RecursionError):
        raise Unreadable(f"config.json in {folder} isn't JSON") from None
    weights = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    if not weights:
        raise Unreadable(f"{folder} has no *.safetensors (other formats can run code and are not loaded)")
    return shape_of_config(config, sum(_parameters_in(path) for path in weights))


def shape_of_config(config: dict[str, Any], parameters: int) -> ModelShape:
    """The shape from a decoded config.json; multimodal models keep the decoder's shape in text_config. Raises Unreadable."""
    try:
        decoder = config.get("text_config") or config
        hidden = int(decoder.get("hidden_size") or 0)
        shape = ModelShape(
            parameters=parameters,
            hidden=hidden,
            layers=int(decoder.get("num_hidden_layers") or 0),
            intermediate=int(decoder.get("intermediate_size") or 4 * hidden),
            vocabulary=int(decoder.get("vocab_size") or 0),
        )
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        raise Unreadable("config.json doesn't describe a model") from None
    if not all(0 <= size < MAX_SIZE for size in (shape.hidden, shape.layers, shape.intermediate, shape.vocabulary)):
        raise Unreadable("config.json doesn't describe a model")
    return shape


def shape_of_scratch(scratch: ScratchConfig) -> ModelShape:
    """The shape of a model to be created, with tied embeddings."""
    attention = 4 * scratch.hidden * scratch.hidden
    layer = attention + 3 * scratch.hidden * scratch.intermediate
    return ModelShape(
        parameters=int(scratch.layers * layer + scratch.vocabulary * scratch.hidden),
        hidden=scratch.hidden,
        layers=scratch.layers,
        intermediate=scratch.intermediate,
        vocabulary=scratch.vocabulary,
    )


def estimate(config: TrainingConfig, shape: ModelShape, *, row_tokens: int, has_bf16: bool) -> Estimate:
    """What training needs. row_tokens: typical row length in tokens, capped at max_length. has_bf16: natively on the device."""
    optimizer = config.optimizer
    compute_bytes = 2 if optimizer.precision == "bfloat16" or (optimizer.precision == "auto" and has_bf16) else 4
    trained = _lora_parameters(shape, config.lora.rank) if config.lora else shape.parameters
    weights = shape.parameters * _bytes_of_a_weight(config, compute_bytes) + trained * (4 if config.lora else 0)
    has_reference = isinstance(config, DpoConfig | KtoConfig) and not config.lora
    reference = shape.parameters * 4 if has_reference else 0  # same dtype as the trained weights
    pairs = isinstance(config, DpoConfig | KtoConfig | RewardModelConfig)  # KTO reads each row twice, once mismatched
    tokens = optimizer.batch_size * (2 if pairs else 1) * min(row_tokens, optimizer.max_length)
    layer_bytes = (9 * shape.hidden + 3 * shape.intermediate) * compute_bytes
    activations = (
        shape.layers * shape.hidden * compute_bytes + layer_bytes
        if optimizer.gradient_checkpointing
        else shape.layers * layer_bytes
    )
    has_lm_head = not isinstance(config, RewardModelConfig | ProcessRewardModelConfig)
    tile = min(tokens, TILE_TOKENS) * min(shape.vocabulary, TILE_WORDS) if has_lm_head else 0
    memory = weights + trained * ADAM_BYTES + reference + tokens * activations + TILE_COPIES * 4 * tile
    checkpoint = trained * 12  # the weights and Adam's moments
    disk = (config.checkpoints.keep + 1) * checkpoint + shape.parameters * compute_bytes
    return Estimate(memory_mb=round(memory / 1e6 + OVERHEAD_MB), disk_mb=round(disk / 1e6, 1))


def _bytes_of_a_weight(config: TrainingConfig, compute_bytes: int) -> float:
    """Float32 if all weights are trained; with adapters, the compute dtype, or 4 bits plus scales."""
    if config.lora is None:
        return 4
    return NF4_BYTES if config.lora.quantized else compute_bytes


def _lora_parameters(shape: ModelShape, rank: int) -> int:
    """Adapters on every linear layer: four in attention, three in the feed-forward."""
    return shape.layers * rank * (8 * shape.hidden + 3 * (shape.hidden + shape.intermediate))


def _parameters_in(path: Path) -> int:
    """Number of weights in a safetensors file, from the shapes in its header."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
        if not 0 < length < MAX_HEADER_BYTES:
            raise Unreadable(f"{path.name} isn't a safetensors file")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise Unreadable(f"{path.name} is truncated, or isn't a safetensors file") from None
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
    """The hub has no such model (or denies access)."""


def shape_of_hub(model: str, revision: str | None) -> ModelShape | None:
    """The shape of a hub model; None if the hub can't be reached. Raises NotOnHub, Unreadable."""
    try:
        weights = HfApi().model_info(model, revision=revision, timeout=TIMEOUT_SECONDS).safetensors
        found = hf_hub_download(model, "config.json", revision=revision, etag_timeout=TIMEOUT_SECONDS, dry_run=True)
        if (found.file_size or 0) > MAX_CONFIG_BYTES:
            raise Unreadable(f"config.json of {model!r} has more than {MAX_CONFIG_BYTES >> 20} MiB")
        # What was measured: the model may change meanwhile.
        config = Path(hf_hub_download(model, "config.json", revision=found.commit_hash, etag_timeout=TIMEOUT_SECONDS))
    except (RepositoryNotFoundError, EntryNotFoundError) as error:
        if isinstance(error, LocalEntryNotFoundError):
            return None
        raise NotOnHub(
            f"the hub has no model {model!r} that this worker may see (private ones need HF_TOKEN)"
        ) from None
    except (HTTPError, OSError, RuntimeError):
        return None
    if weights is None:
        raise NotOnHub(f"{model!r} has no safetensors on the hub; other formats can run code and are not loaded")
    try:
        described = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise Unreadable(f"config.json of {model!r} isn't JSON") from None
    return shape_of_config(described, weights.total)


STEP_SECONDS = 0.05
"""Overhead per step besides arithmetic: reading rows, the optimizer, events."""
GPU_UTILIZATION = 0.35
"""Fraction of a GPU's peak that training achieves."""
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
"""Peak throughput of dense bfloat16 matrix products (float32 on GPUs without it, which `auto` uses there), from data sheets."""
CPU_UTILIZATION = 0.26
"""The same for a CPU, from 800 steps of the demo's first model on two cores (tests/workers/test_forecasts.py has the figures)."""
MATRIX_SIZE = 64
"""Size of a matrix small enough for a single thread."""
PROBES, PRODUCTS = 5, 2000


PADDING_FACTOR = 1.25
"""Padding: the longest row of a batch relative to the typical one, measured on chats with tools."""


def seconds_of(
    config: FileTrainingConfig, shape: ModelShape, *, rows: int, validation_rows: int, row_tokens: float, tflops: float
) -> float:
    """Training time without loading. row_tokens: length of a typical chat; tflops: the device's effective 10¹² operations per second."""
    optimizer = config.optimizer
    chats = chats_per_row(config)
    tokens = min(row_tokens * PADDING_FACTOR, optimizer.max_length)
    steps = config.steps(rows)
    reference = 2 if isinstance(config, DpoConfig | KtoConfig) else 0
    backward = 2 if config.lora else 4
    recomputed = 2 if optimizer.gradient_checkpointing else 0
    training = steps * config.rows_per_step * chats * tokens * (2 + backward + recomputed + reference)
    evaluating = evaluations_in(steps, every=config.evaluate_every) * validation_rows * chats * tokens * (2 + reference)
    operations_per_token = shape.parameters + shape.layers * shape.hidden * tokens
    return steps * STEP_SECONDS + operations_per_token * (training + evaluating) / (tflops * 1e12)


def chats_per_row(config: FileTrainingConfig) -> int:
    """Chats that the model reads per row: KTO reads each a second time with a mismatched prompt."""
    return 2 if isinstance(config, DpoConfig | KtoConfig | RewardModelConfig) else 1


def gpu_tflops(name: str) -> float | None:
    """Effective throughput of a GPU by name; None if unknown."""
    for model, peak in GPU_TFLOPS.items():
        if model in name:
            return peak * GPU_UTILIZATION
    return None


@cache
def cpu_tflops() -> float:
    """This machine's training throughput when otherwise idle.

    Measured in CPU time of one thread, which doesn't depend on the machine's load.
    """
    matrix = np.ones((MATRIX_SIZE, MATRIX_SIZE), dtype=np.float32)
    out = np.empty_like(matrix)
    speeds = []
    for _ in range(PROBES):
        start = time.thread_time()
        for _ in range(PRODUCTS):
            np.matmul(matrix, matrix, out=out)
        speeds.append(PRODUCTS * 2 * MATRIX_SIZE**3 / (time.thread_time() - start) / 1e12)
    return median(speeds) * len(os.sched_getaffinity(0)) * CPU_UTILIZATION
