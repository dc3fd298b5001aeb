"""Refuses a folder whose config.json describes a larger model than its files hold: transformers would fill in what is missing at random, in any amount of memory."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from trainer.failures import ConfigFailure

MAX_CONFIG_BYTES = 4 << 20
MAX_OTHER_BYTES = 128 << 20
"""Maximum size of everything but weights, above all the tokenizer, which takes several times its size in memory."""
MAX_LAYERS = 1000
"""Even without weights, each layer takes time and memory to create. The same holds for everything else of which a config says how many there are."""
COUNTED = re.compile(r"(layer|block|depth|expert|stack|head|codebook|quantizer)s?(_|$)")
MEASURED = re.compile(r"(size|dim|id|index|offset|period|interval|scale)(_|$)")
"""Numbers about one layer or head rather than of them."""
MIN_BYTES = 2
"""Bytes of a parameter in models that are trained here, at least. A header may claim any number."""
MAX_BUFFERS = 64 << 20
"""Maximum number of values that aren't parameters, such as masks; they aren't in the files."""


NEW_HEAD = 1 << 20
"""Maximum number of parameters of a head that isn't in the files, because a reward model begins with a new one."""


def refuse_incomplete(folder: Path, auto: Any = AutoModelForCausalLM) -> None:
    """`auto`: the class that will load it. Raises ConfigFailure, OSError, ValueError."""
    weights = sorted(folder.glob("*.safetensors"))
    others = sum(file.stat().st_size for file in folder.glob("*") if file not in weights)
    if others > MAX_OTHER_BYTES or (folder / "config.json").stat().st_size > MAX_CONFIG_BYTES:
        raise _refusal(folder, "its files besides the weights are too large")
    try:
        counts = list(_counts(json.loads((folder / "config.json").read_bytes())))
    except RecursionError:
        raise _refusal(folder, "config.json is nested too deeply") from None
    for name, count in counts:
        if count > MAX_LAYERS:
            raise _described(folder, f"{count:,} {name}")
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    with torch.device("meta"):
        model: Any = auto.from_config(config, trust_remote_code=False)
    described = sum(parameter.numel() for parameter in model.parameters())
    if weights and described > sum(map(parameters_in, weights)) + (0 if auto is AutoModelForCausalLM else NEW_HEAD):
        raise _described(folder, f"{described:,} parameters")
    if (buffers := sum(buffer.numel() for buffer in model.buffers())) > MAX_BUFFERS:
        raise _described(folder, f"{buffers:,} values in buffers")


def parameters_in(file: Path) -> int:
    """The number of parameters in a safetensors file: what its header says, but no more than fit. Raises OSError, ValueError."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        header = json.loads(opened.read(min(int.from_bytes(opened.read(8), "little"), size)))
    try:
        claimed: int = sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    except (AttributeError, LookupError, TypeError):
        raise ValueError(f"{file.name} isn't a safetensors file") from None
    return min(claimed, size // MIN_BYTES)


def _counts(value: Any) -> Iterator[tuple[str, int]]:
    """The numbers of layers, heads, experts, … that a config names, at any depth, and the lengths of its lists."""
    match value:
        case dict():
            for name, item in value.items():
                if type(item) is int and COUNTED.search(name) and not MEASURED.search(name):
                    yield name, item
                elif isinstance(item, list):
                    yield f"entries of {name}", len(item)
                yield from _counts(item)
        case list():
            for item in value:
                yield from _counts(item)


def _described(folder: Path, what: str) -> ConfigFailure:
    return _refusal(folder, f"config.json describes {what}, more than its files hold")


def _refusal(folder: Path, problem: str) -> ConfigFailure:
    return ConfigFailure(f"model.path: {folder.name!r} isn't loaded: {problem}.", advice="Save the model again.")
