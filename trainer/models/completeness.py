"""Refuses a folder whose config.json describes a larger model than its files hold: transformers would fill in what is missing at random, in any amount of memory."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from trainer.failures import ConfigFailure

MAX_LAYERS = 1000
"""Even without weights, each layer takes time and memory to create."""


def refuse_incomplete(folder: Path) -> None:
    """Raises ConfigFailure, OSError, ValueError."""
    auto: Any = AutoModelForCausalLM  # transformers leaves it untyped
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    layers = getattr(config.get_text_config(), "num_hidden_layers", 0)
    if layers > MAX_LAYERS:
        raise _refusal(folder, f"{layers:,} layers")
    with torch.device("meta"):
        model: Any = auto.from_config(config, trust_remote_code=False)
    described = sum(parameter.numel() for parameter in model.parameters())
    if described > sum(map(parameters_in, folder.glob("*.safetensors"))):
        raise _refusal(folder, f"{described:,} parameters")


def parameters_in(file: Path) -> int:
    """The number of parameters in a safetensors file, by its header. Raises OSError, ValueError."""
    with file.open("rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _refusal(folder: Path, size: str) -> ConfigFailure:
    return ConfigFailure(
        f"model.path: {folder.name!r} isn't loaded: config.json describes {size}, more than its files hold.",
        advice="Save the model again.",
    )
