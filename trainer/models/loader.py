"""Loads a model and its tokenizer from a folder or the hub: safetensors only, and no bundled code unless enabled.

A folder must not contain code, pickles, or references to files outside it. Its author isn't trusted, and transformers follows its references: the
files of an index, the base of an adapter, a kernel on the hub. So these are checked before loading.

QLoRA (Dettmers et al., 2023, arXiv 2305.14314) keeps the frozen weights in 4 bits, and reloads them unquantized to merge the adapters. Left out: paged optimizers,
and quantization of fully trained models.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import DryRunFileInfo, constants, snapshot_download
from huggingface_hub.errors import DryRunError, HfHubHTTPError
from peft import PeftModel
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BitsAndBytesConfig,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from contract.configs import LoraConfig, ModelConfig, Precision
from contract.hub_ids import is_hub_id
from trainer.failures import ConfigFailure
from trainer.models.completeness import refuse_incomplete
from trainer.rendering.templates import prepare_template

HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
HUB_FILES_NOT_READ = ["*/*", "consolidated*.safetensors"]
"""Other formats of the same weights, which some models include."""
MAX_OTHER_BYTES = 1 << 30
"""Maximum size of a hub model's files besides its weights. They're read into memory, and anybody may put a model of any size on the hub."""
DISK_SHARE = 0.9
"""Maximum share of the free disk space that a download takes."""


def load_tokenizer(config: ModelConfig, folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer, with a chat template that marks generated tokens. Raises ConfigFailure."""
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
    """The model with a scalar head, which is randomly initialized if the base is a language model."""
    settings |= {"num_labels": 1, "pad_token_id": pad_token_id, "use_safetensors": True}
    model: PreTrainedModel = load(AutoModelForSequenceClassification, config, folder, dtype=dtype, **settings)
    return model


def load_process_model(config: ModelConfig, folder: Path, dtype: torch.dtype, **settings: Any) -> PreTrainedModel:
    """The model with three logits per token: bad, neutral, and good, for the turn that ends there. The head may be randomly initialized."""
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
        location = located(source, folder)
        refuse_foreign(Path(location), with_code=source.trust_remote_code)
        if source.path.startswith(".") and hasattr(
            auto, "from_config"
        ):  # of a training run, which may be an imported one
            refuse_incomplete(Path(location), auto)
        loaded = auto.from_pretrained(
            location, trust_remote_code=source.trust_remote_code, local_files_only=True, **settings
        )
    except (OSError, ValueError, ImportError, SafetensorError, HfHubHTTPError) as error:
        raise ConfigFailure(
            f"model.path: cannot load {source.path!r}: {str(error).splitlines()[0]}",
            advice="Give a folder with config.json, tokenizer files and *.safetensors, or the id of a model on the hub "
            "that this machine can reach. Models that bring code of their own need model.trust_remote_code.",
        ) from error
    if not source.trust_remote_code:
        remove_custom_code(loaded)
    if (generation := getattr(loaded, "generation_config", None)) is not None:
        make_savable(generation)
    return loaded


def make_savable(generation: GenerationConfig) -> None:
    """Set do_sample for models (such as Vicuna) that have a temperature without it: such a config loads, but can't be saved."""
    try:
        generation.validate(strict=True)
    except ValueError:
        generation.do_sample = True


def located(source: ModelConfig, folder: Path) -> str:
    """The folder to load the model from: its path relative to the run's folder, or the local copy of a hub model.

    transformers never gets a hub id: it would prefer a folder of that name in the working directory.
    Raises ConfigFailure if there is no such folder, and exceptions of the hub client.
    """
    if is_hub_id(source.path):
        return copied_from_hub(source.path, source.revision, with_code=source.trust_remote_code)
    if not source.path.startswith((".", "/")):
        raise ConfigFailure(
            f"model.path: {source.path!r} is neither a folder nor the id of a model on the hub.",
            advice="Begin a folder with /, ./ or ../ (it is relative to run.json); a hub id is like Qwen/Qwen3-0.6B.",
        )
    path = folder / source.path
    if not path.is_dir():
        raise ConfigFailure(f"model.path: there is no folder {source.path!r}.", advice="It is relative to run.json.")
    return str(path)


@cache  # a run that reloads its base gets the same revision
def copied_from_hub(hub_id: str, revision: str | None, *, with_code: bool) -> str:
    """The local folder of a hub model, downloaded if needed: without pickles, and with Python files only if enabled. Raises ConfigFailure if it's too large."""
    patterns = [*HUB_FILES, "*.py"] if with_code else HUB_FILES
    chosen: dict[str, Any] = {"allow_patterns": patterns, "ignore_patterns": HUB_FILES_NOT_READ}
    with suppress(DryRunError):  # the hub can't be reached, so only an earlier download can be used
        files = snapshot_download(hub_id, revision=revision, dry_run=True, **chosen)
        refuse_too_large(hub_id, files)
        revision = files[0].commit_hash if files else revision  # what was measured
    folder: str = snapshot_download(hub_id, revision=revision, **chosen)
    return folder


def refuse_too_large(hub_id: str, files: Sequence[DryRunFileInfo]) -> None:
    """Raises ConfigFailure for files that don't fit in memory, or on the disk."""
    others = sum(file.file_size or 0 for file in files if not file.filename.endswith(".safetensors"))
    if others > MAX_OTHER_BYTES:
        raise ConfigFailure(
            f"model.path: {hub_id!r} has {others >> 20:,} MiB of files besides its weights, more than {MAX_OTHER_BYTES >> 20:,}.",
            advice="Choose another model.",
        )
    folder = Path(constants.HF_HUB_CACHE)
    while not folder.exists():
        folder = folder.parent
    missing, free = sum(file.file_size or 0 for file in files if file.will_download), shutil.disk_usage(folder).free
    if missing > DISK_SHARE * free:
        raise ConfigFailure(
            f"model.path: {hub_id!r} has {missing >> 20:,} MiB to download, and the worker's disk has {free >> 20:,} MiB free.",
            advice="Choose a smaller model, or free some space.",
        )


def compute_dtype(precision: Precision) -> torch.dtype:
    """bfloat16 if configured, or with `auto` if the accelerator supports it; otherwise float32.

    Before Ampere (T4, V100), torch emulates bfloat16, which has its low precision without the speed.
    """
    if precision == "auto":
        has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if has_bf16 else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


WHOLE = ["lm_head", "score"]
"""Heads aren't quantized: a new one is trained, and errors in an existing one directly affect the output."""


def quantization(lora: LoraConfig | None, dtype: torch.dtype) -> dict[str, Any]:
    """Quantization arguments of `from_pretrained`; empty without QLoRA. Raises ConfigFailure if this machine doesn't support it."""
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
    """Reload the base unquantized and merge `adapter` into it. Merging into 4 bits would round the adapter away."""
    base: Any = trained.get_base_model()
    shape = base.config.__class__.from_dict(
        {name: value for name, value in base.config.to_dict().items() if name != "quantization_config"}
    )
    unquantized = load(type(base), config, folder, config=shape, dtype=dtype, use_safetensors=True)
    return PeftModel.from_pretrained(unquantized, str(adapter)).merge_and_unload()


def refuse_foreign(folder: Path, *, with_code: bool) -> None:
    """Raises ConfigFailure if loading from `folder` would read another folder, open a pickle, or fetch native code.

    with_code: its own code may run, which makes these checks moot.
    """
    if with_code:
        return
    if (folder / "adapter_config.json").is_file():
        raise _refusal(
            folder,
            "adapter_config.json makes it an adapter, which loads a base from wherever it says",
            "Merge it into its base.",
        )
    for index in sorted(folder.glob("*.index.json")):
        for shard in _shards(index):
            if Path(shard).name != shard or not shard.endswith(".safetensors"):
                raise _refusal(
                    folder,
                    f"{index.name} names {shard!r}, expected *.safetensors beside it",
                    "Save the model as safetensors.",
                )
    for name, value in _settings(_read(folder / "config.json")):
        if name.endswith("attn_implementation") and isinstance(value, str) and "/" in value:
            raise _refusal(folder, f"config.json asks for the kernel {value!r} from the hub", f"Remove {name}.")


def remove_custom_code(loaded: Any) -> None:
    """Remove references to custom code from a model or tokenizer: it isn't used, and mustn't be in what is saved and published."""
    config = getattr(loaded, "config", None)
    for settings in (getattr(loaded, "init_kwargs", {}), vars(config) if config is not None else {}):
        settings.pop("auto_map", None)


def _shards(index: Path) -> Iterator[str]:
    weight_map = _read(index).get("weight_map")
    yield from set(map(str, weight_map.values())) if isinstance(weight_map, dict) else ()


def _read(path: Path) -> dict[str, Any]:
    """Empty if it isn't a JSON object, which loading will report."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _settings(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """All names and values, including nested configs."""
    waiting = [content]
    while waiting:
        for name, value in waiting.pop().items():
            yield name, value
            if isinstance(value, dict):
                waiting.append(value)


def _refusal(folder: Path, problem: str, advice: str) -> ConfigFailure:
    return ConfigFailure(f"model.path: {folder.name!r} isn't loaded: {problem}.", advice=advice)
