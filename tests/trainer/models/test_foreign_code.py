"""Model folders that contain code, pickles, or references to other folders: none of the code runs, and none of the files is read."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from contract.configs import ModelConfig
from contract.events import Failed
from tests.trainer.policies import save_policy, small_model
from tests.trainer.runs import events_of, run_here
from trainer.failures import ConfigFailure, ExitCode
from trainer.models.loader import load_policy, load_process_model, load_reward_model, load_tokenizer


class Deadly:
    """Unpickling this would create a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def own_code(folder: Path, mark: Path) -> None:
    """Add code to a model of a kind that transformers knows without it."""
    change(folder / "config.json", auto_map={"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"})
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["mine.T", "mine.T"]}, tokenizer_class="Mine")
    (folder / "custom_generate").mkdir()
    for script in (folder / "mine.py", folder / "custom_generate" / "generate.py"):
        script.write_text(f"import os\nos.mkdir({str(mark)!r})\n")


def unknown_kind(folder: Path, mark: Path) -> None:
    own_code(folder, mark)
    change(folder / "config.json", model_type="mine")


def code_elsewhere(folder: Path, mark: Path) -> None:
    change(folder / "config.json", model_type="mine", auto_map={"AutoConfig": "somebody/else--mine.C"})


def pickle_beside(folder: Path, mark: Path) -> None:
    torch.save({"weights": Deadly(mark)}, folder / "pytorch_model.bin")


def pickle_alone(folder: Path, mark: Path) -> None:
    pickle_beside(folder, mark)
    (folder / "model.safetensors").unlink()


def index_of(folder: Path, shard: str) -> None:
    weights = folder / "model.safetensors"
    with safe_open(weights, "pt") as tensors:
        names = list(tensors.keys())
    weights.unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(names, shard)}))


def pickled_shard(folder: Path, mark: Path) -> None:
    index_of(folder, "shard.bin")
    torch.save({"weights": Deadly(mark)}, folder / "shard.bin")


def weights_elsewhere(folder: Path, mark: Path) -> None:
    index_of(folder, "../theirs/model.safetensors")


def weights_at_a_path(folder: Path, mark: Path) -> None:
    index_of(folder, str(folder.parent / "theirs" / "model.safetensors"))


def base_elsewhere(folder: Path, mark: Path) -> None:
    adapter = {"peft_type": "LORA", "r": 1, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    base = {"base_model_name_or_path": str(folder.parent / "theirs")}
    (folder / "config.json").unlink()
    (folder / "adapter_config.json").write_text(json.dumps({**adapter, **base}))
    save_file({}, folder / "adapter_model.safetensors")


def kernel_of_the_hub(folder: Path, mark: Path) -> None:
    change(folder / "config.json", attn_implementation="somebody/kernel")


SPOILED: list[Callable[[Path, Path], None]] = [
    *(unknown_kind, code_elsewhere, pickle_alone, pickled_shard),
    *(weights_elsewhere, weights_at_a_path, base_elsewhere, kernel_of_the_hub),
]
LOADERS: list[Callable[[ModelConfig, Path], Any]] = [
    lambda config, folder: load_policy(config, folder, torch.float32),
    lambda config, folder: load_reward_model(config, folder, torch.float32, 0),
    lambda config, folder: load_process_model(config, folder, torch.float32, pad_token_id=0),
]


@pytest.mark.parametrize("load", LOADERS, ids=["policy", "reward model", "process model"])
@pytest.mark.parametrize("spoil", SPOILED)
def test_a_folder_that_brings_code_or_leads_elsewhere_is_refused(
    spoil: Callable[[Path, Path], None], load: Callable[[ModelConfig, Path], Any], tmp_path: Path
):
    save_policy(tmp_path / "theirs", seed=9)
    spoil(save_policy(tmp_path / "base"), tmp_path / "it ran")
    with pytest.raises(ConfigFailure, match=r"^model\.path: "):
        load(ModelConfig(path="./base"), tmp_path)
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize("spoil", [own_code, pickle_beside])
def test_what_brings_safetensors_of_a_known_kind_is_loaded_without_its_code(
    spoil: Callable[[Path, Path], None], tmp_path: Path
):
    spoil(save_policy(tmp_path / "base"), tmp_path / "it ran")
    loaded = load_policy(ModelConfig(path="./base"), tmp_path, torch.float32)
    tokenizer = load_tokenizer(ModelConfig(path="./base"), tmp_path)
    assert type(loaded).__module__.startswith("transformers.")
    assert type(tokenizer).__module__.startswith("transformers.")
    assert torch.equal(loaded.model.embed_tokens.weight, small_model().model.embed_tokens.weight)
    loaded.save_pretrained(tmp_path / "made")
    tokenizer.save_pretrained(tmp_path / "made")
    assert not (tmp_path / "it ran").exists()
    kept = {path.name for path in (tmp_path / "made").iterdir()}
    assert not [name for name in kept if name.endswith((".py", ".bin"))]
    assert "auto_map" not in json.loads((tmp_path / "made" / "config.json").read_text())
    assert "auto_map" not in json.loads((tmp_path / "made" / "tokenizer_config.json").read_text())


def rolled_out() -> dict[str, Any]:
    return {"kind": "rollout", "policy": {"engine": "local", "model": {"path": "../base"}}, "tasks": {"count": 1}}


def trained() -> dict[str, Any]:
    return {"kind": "sft", "model": {"path": "../base"}, "data": {"train": "rows.jsonl"}}


@pytest.mark.parametrize("config", [rolled_out, trained])
@pytest.mark.parametrize("spoil", [unknown_kind, weights_elsewhere])
def test_runs_from_such_a_folder_end_in_words(
    spoil: Callable[[Path, Path], None], config: Callable[[], dict[str, Any]], tmp_path: Path
):
    save_policy(tmp_path / "theirs", seed=9)
    spoil(save_policy(tmp_path / "base"), tmp_path / "it ran")
    (tmp_path / "run").mkdir()
    prompt, completion = [{"role": "user", "content": "Hi"}], [{"role": "assistant", "content": "Hello"}]
    (tmp_path / "run" / "rows.jsonl").write_text(json.dumps({"prompt": prompt, "completion": completion}) + "\n")
    assert run_here(tmp_path / "run", config()) == ExitCode.CONFIG
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert last.message.startswith("model.path: ")
    assert not (tmp_path / "it ran").exists()
