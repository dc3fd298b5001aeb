"""Loads a model and its tokenizer from a folder or the hub: safetensors only, no code that comes with it unless asked for."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from trainer.configs import ModelConfig, Precision
from trainer.failures import ConfigFailure
from trainer.rendering.templates import prepare_template


def load_tokenizer(config: ModelConfig, folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer with a template that marks what the policy generates. Raises ConfigFailure."""
    tokenizer: PreTrainedTokenizerBase = load(AutoTokenizer, config, folder)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    prepare_template(tokenizer)
    return tokenizer


def load_policy(config: ModelConfig, folder: Path, dtype: torch.dtype, **settings: Any) -> PreTrainedModel:
    """A causal language model. Raises ConfigFailure."""
    model: PreTrainedModel = load(AutoModelForCausalLM, config, folder, dtype=dtype, use_safetensors=True, **settings)
    return model


def load_reward_model(
    config: ModelConfig, folder: Path, dtype: torch.dtype, pad_token_id: int, **settings: Any
) -> PreTrainedModel:
    """The same body with one number as its output; that head starts random where the base is a language model."""
    settings |= {"num_labels": 1, "pad_token_id": pad_token_id, "use_safetensors": True}
    model: PreTrainedModel = load(AutoModelForSequenceClassification, config, folder, dtype=dtype, **settings)
    return model


def load_process_model(config: ModelConfig, folder: Path, dtype: torch.dtype, **settings: Any) -> PreTrainedModel:
    """The same body with three numbers a token: how bad, neutral and good the turn is that ends there. The head may start random."""
    model: PreTrainedModel = load(
        AutoModelForTokenClassification,
        config,
        folder,
        dtype=dtype,
        num_labels=3,
        id2label={0: "bad", 1: "neutral", 2: "good"},
        label2id={"bad": 0, "neutral": 1, "good": 2},
        use_safetensors=True,
        **settings,
    )
    return model


def load(auto: Any, source: ModelConfig, folder: Path, **settings: Any) -> Any:
    """`auto.from_pretrained`, with failures that say what to do."""
    place = located(source.path, folder)
    try:
        loaded = auto.from_pretrained(
            place, revision=source.revision or "main", trust_remote_code=source.trust_remote_code, **settings
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigFailure(
            f"model.path: cannot load {source.path!r}: {str(error).splitlines()[0]}",
            advice="Give a folder with config.json, tokenizer files and *.safetensors, or the id of a model on the hub "
            "that this machine can reach. Models that bring code of their own need model.trust_remote_code.",
        ) from error
    if (generation := getattr(loaded, "generation_config", None)) is not None:
        make_savable(generation)
    return loaded


def make_savable(generation: GenerationConfig) -> None:
    """Say that it samples, where a model (Vicuna, say) brings a temperature and does not: it loads like that, and is refused when it is saved."""
    try:
        generation.validate(strict=True)
    except ValueError:
        generation.do_sample = True


def located(path: str, folder: Path) -> str:
    """The folder that `path` names, seen from the run's folder; else the hub id that it is.

    Raises ConfigFailure where it can only mean a folder, and there is none.
    """
    place = folder / path
    if place.is_dir():
        return str(place)
    if path.startswith((".", "/")) or path.count("/") > 1:
        raise ConfigFailure(f"model.path: there is no folder {path!r}.", advice="It is relative to run.json.")
    return path


def compute_dtype(precision: Precision) -> torch.dtype:
    """bfloat16 where it is asked for, or where `auto` finds an accelerator that has it; else float32.

    Before Ampere (T4, V100) torch emulates bfloat16: it has the rounding of 8 bits without the speed.
    """
    if precision == "auto":
        has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if has_bf16 else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32
