"""Loads a model and its tokenizer from a folder or the hub: safetensors only, no code that comes with it unless asked for."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError
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

from contract.configs import ModelConfig, Precision
from contract.hub_ids import is_hub_id
from trainer.failures import ConfigFailure
from trainer.models.foreign import forget_code, refuse_foreign
from trainer.rendering.templates import prepare_template

HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
HUB_FILES_NOT_READ = ["*/*", "consolidated*.safetensors"]
"""Other forms of the same weights, which some models bring along."""


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
    try:
        place = located(source, folder)
        refuse_foreign(Path(place), with_code=source.trust_remote_code)
        loaded = auto.from_pretrained(
            place, trust_remote_code=source.trust_remote_code, local_files_only=True, **settings
        )
    except (OSError, ValueError, ImportError, SafetensorError, HfHubHTTPError) as error:
        raise ConfigFailure(
            f"model.path: cannot load {source.path!r}: {str(error).splitlines()[0]}",
            advice="Give a folder with config.json, tokenizer files and *.safetensors, or the id of a model on the hub "
            "that this machine can reach. Models that bring code of their own need model.trust_remote_code.",
        ) from error
    if not source.trust_remote_code:
        forget_code(loaded)
    if (generation := getattr(loaded, "generation_config", None)) is not None:
        make_savable(generation)
    return loaded


def make_savable(generation: GenerationConfig) -> None:
    """Say that it samples, where a model (Vicuna, say) brings a temperature and does not: it loads like that, and is refused when it is saved."""
    try:
        generation.validate(strict=True)
    except ValueError:
        generation.do_sample = True


def located(source: ModelConfig, folder: Path) -> str:
    """The folder that the model is loaded from: the one that its path names, seen from the run's folder, or the hub client's copy of a hub model.

    transformers is never handed a hub id: it would take a folder of that name in the working directory for it.
    Raises ConfigFailure where there is no such folder; what the hub's client raises.
    """
    if is_hub_id(source.path):
        return copied_from_hub(source.path, source.revision, with_code=source.trust_remote_code)
    if not source.path.startswith((".", "/")):
        raise ConfigFailure(
            f"model.path: {source.path!r} is neither a folder nor the id of a model on the hub.",
            advice="Begin a folder with /, ./ or ../ (it is relative to run.json); a hub id is like Qwen/Qwen3-0.6B.",
        )
    place = folder / source.path
    if not place.is_dir():
        raise ConfigFailure(f"model.path: there is no folder {source.path!r}.", advice="It is relative to run.json.")
    return str(place)


@cache  # a run that reads its base again reads the same revision
def copied_from_hub(hub_id: str, revision: str | None, *, with_code: bool) -> str:
    """The folder with the hub's files, downloaded where they are not there yet: no pickles, and Python only where it was asked for."""
    wanted = [*HUB_FILES, "*.py"] if with_code else HUB_FILES
    return snapshot_download(hub_id, revision=revision, allow_patterns=wanted, ignore_patterns=HUB_FILES_NOT_READ)


def compute_dtype(precision: Precision) -> torch.dtype:
    """bfloat16 where it is asked for, or where `auto` finds an accelerator that has it; else float32.

    Before Ampere (T4, V100) torch emulates bfloat16: it has the rounding of 8 bits without the speed.
    """
    if precision == "auto":
        has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if has_bf16 else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32
