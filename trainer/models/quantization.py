"""QLoRA (Dettmers et al., 2023, arXiv 2305.14314): the frozen weights in four bits, and whole ones again when the adapters are merged.

Left out: paged optimizers, and any quantization of models that are trained whole.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import BitsAndBytesConfig

from contract.configs import LoraConfig, ModelConfig
from trainer.failures import ConfigFailure
from trainer.models.loader import load

WHOLE = ["lm_head", "score"]
"""Heads stay as they are: a new one is trained, and errors in an old one go straight to the output."""


def quantization(lora: LoraConfig | None, dtype: torch.dtype) -> dict[str, Any]:
    """What `from_pretrained` needs to be told; nothing without QLoRA. Raises ConfigFailure where this machine cannot do it."""
    if lora is None or not lora.quantized:
        return {}
    if not torch.cuda.is_available():
        raise ConfigFailure(
            "lora.quantized: QLoRA needs an NVIDIA GPU, and torch finds none on this machine.",
            advice="Set lora.quantized to false: LoRA runs everywhere.",
        )
    if find_spec("bitsandbytes") is None:
        raise ConfigFailure(
            "lora.quantized: QLoRA needs the package bitsandbytes, which is not installed here.",
            advice="pip install bitsandbytes where the worker runs, or set lora.quantized to false.",
        )
    settings = BitsAndBytesConfig(  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=WHOLE,
    )
    return {"quantization_config": settings, "device_map": {"": torch.cuda.current_device()}}


def merge_into_whole(trained: PeftModel, adapter: Path, config: ModelConfig, folder: Path, dtype: torch.dtype) -> Any:
    """The base, read again unquantized, with the adapters of `adapter` in it. Merging into four bits would round them away."""
    base: Any = trained.get_base_model()
    shape = base.config.__class__.from_dict(
        {name: value for name, value in base.config.to_dict().items() if name != "quantization_config"}
    )
    whole = load(type(base), config, folder, config=shape, dtype=dtype, use_safetensors=True)
    return PeftModel.from_pretrained(whole, str(adapter)).merge_and_unload()
