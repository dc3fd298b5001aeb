"""Models are loaded from folders or the hub, only as safetensors, and errors say what is wrong with the location."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from huggingface_hub import DryRunFileInfo
from huggingface_hub.errors import DryRunError

from contract.configs import ModelConfig
from tests.trainer.policies import qwen3_tokenizer, save_policy, small_model
from trainer.failures import ConfigFailure
from trainer.models import loader
from trainer.models.loader import (
    compute_dtype,
    load_policy,
    load_process_model,
    load_reward_model,
    load_tokenizer,
    located,
)


def test_a_folder_is_seen_from_the_runs_folder(tmp_path: Path):
    (tmp_path / "base").mkdir()
    (tmp_path / "run").mkdir()
    for path in ("../base", str(tmp_path / "base")):
        assert Path(located(ModelConfig(path=path), tmp_path / "run")).samefile(tmp_path / "base")


@pytest.mark.parametrize("path", ["../none", "/none", "./none"])
def test_a_folder_must_be_there(tmp_path: Path, path: str):
    with pytest.raises(ConfigFailure, match="there is no folder"):
        located(ModelConfig(path=path), tmp_path)


@pytest.mark.parametrize("path", ["a/b/c", "~/models/base", "file:///models/base", "a--b/c", "a/b..c"])
def test_what_is_neither_a_folder_nor_a_hub_id_is_refused(tmp_path: Path, path: str):
    with pytest.raises(ConfigFailure, match="neither a folder nor the id"):
        located(ModelConfig(path=path), tmp_path)


@pytest.mark.parametrize("path", ["owner/base", "base"])
def test_a_hub_id_is_never_a_folder_of_the_working_directory_or_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
):
    save_policy(tmp_path / path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for load in (
        lambda config: load_policy(config, tmp_path, torch.float32),
        lambda config: load_tokenizer(config, tmp_path),
    ):
        with pytest.raises(ConfigFailure, match=f"cannot load '{path}'"):
            load(ModelConfig(path=path))


def hub_file(name: str, size: int, *, is_cached: bool = False) -> DryRunFileInfo:
    return DryRunFileInfo("c0ffee", size, name, "", is_cached, not is_cached)


@pytest.mark.parametrize(
    ("file", "refusal"),
    [
        (hub_file("tokenizer.json", 2 << 30), "2,048 MiB of files besides its weights"),
        (hub_file("merges.txt", 2 << 30, is_cached=True), "2,048 MiB of files besides its weights"),
        (hub_file("model.safetensors", 1 << 60), "to download, and the worker's disk has"),
        (hub_file("model.safetensors", 1 << 60, is_cached=True), ""),
        (hub_file("model.safetensors", 1 << 10), ""),
    ],
)
def test_a_hub_model_is_downloaded_only_if_it_fits(monkeypatch: pytest.MonkeyPatch, file: DryRunFileInfo, refusal: str):
    downloaded = []

    def snapshot(hub_id: str, *, dry_run: bool = False, revision: str | None, **_: object) -> object:
        if dry_run:
            return [file, hub_file("config.json", 700)]
        downloaded.append((hub_id, revision))
        return "/the/snapshot"

    monkeypatch.setattr(loader, "snapshot_download", snapshot)
    location = partial(loader.copied_from_hub.__wrapped__, "owner/base", "main", with_code=False)
    if refusal:
        with pytest.raises(ConfigFailure, match=refusal):
            location()
        assert downloaded == []
    else:
        assert location() == "/the/snapshot"
        assert downloaded == [("owner/base", "c0ffee")]  # exactly what was measured


def test_without_the_hub_an_earlier_download_is_used(monkeypatch: pytest.MonkeyPatch):
    def snapshot(hub_id: str, *, dry_run: bool = False, **_: object) -> str:
        if dry_run:
            raise DryRunError
        return "/the/snapshot"

    monkeypatch.setattr(loader, "snapshot_download", snapshot)
    assert loader.copied_from_hub.__wrapped__("owner/base", None, with_code=False) == "/the/snapshot"


def test_a_policy_comes_back_as_it_was_saved(tmp_path: Path):
    save_policy(tmp_path / "base")
    loaded = load_policy(ModelConfig(path="./base"), tmp_path, torch.float32)
    expected = small_model().state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.state_dict().items())


def test_a_policy_with_a_temperature_that_does_not_sample_can_be_saved(tmp_path: Path):
    settings = save_policy(tmp_path / "base") / "generation_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "temperature": 0.6, "top_p": 0.9}))
    load_policy(ModelConfig(path="./base"), tmp_path, torch.float32).save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert (saved["do_sample"], saved["temperature"], saved["top_p"]) == (True, 0.6, 0.9)


def test_a_downloaded_tokenizer_gets_a_template_with_marks_and_a_parser(tmp_path: Path):
    qwen3_tokenizer().save_pretrained(tmp_path / "base")
    loaded = load_tokenizer(ModelConfig(path="./base"), tmp_path)
    assert "{%- generation %}" in str(loaded.chat_template)
    assert loaded.response_template["fields"]["tool_calls"]["open"] == "<tool_call>"


def test_a_language_model_becomes_a_reward_model_with_a_new_head(tmp_path: Path):
    save_policy(tmp_path / "base")
    torch.manual_seed(0)
    loaded = load_reward_model(ModelConfig(path="./base"), tmp_path, torch.float32, pad_token_id=0)
    assert loaded.score.out_features == 1
    assert torch.equal(loaded.model.embed_tokens.weight, small_model().model.embed_tokens.weight)


def truncate(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])


def only_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(small_model().state_dict(), folder / "pytorch_model.bin")


def own_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text("raise SystemExit('this code must never run')")


@pytest.mark.parametrize("spoil", [truncate, only_pickle, own_code, lambda folder: (folder / "config.json").unlink()])
def test_a_model_that_cannot_be_loaded_safely_is_refused(tmp_path: Path, spoil: Callable[[Path], None]):
    spoil(save_policy(tmp_path / "base"))
    with pytest.raises(ConfigFailure) as refused:
        load_policy(ModelConfig(path="./base"), tmp_path, torch.float32)
    assert refused.value.message.startswith("model.path: cannot load './base'")
    assert "*.safetensors" in refused.value.advice


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path):
    small_model().save_pretrained(tmp_path / "base")
    with pytest.raises(ConfigFailure, match="its tokenizer has no chat template"):
        load_tokenizer(ModelConfig(path="./base"), tmp_path)


def test_precision_is_what_was_asked_for_or_what_the_accelerator_has():
    assert compute_dtype("float32") == torch.float32
    assert compute_dtype("bfloat16") == torch.bfloat16


@pytest.mark.parametrize(("native", "expected"), [(False, torch.float32), (True, torch.bfloat16)])
def test_bfloat16_that_is_only_emulated_is_not_chosen(
    monkeypatch: pytest.MonkeyPatch, native: bool, expected: torch.dtype
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: native or including_emulation)
    assert compute_dtype("auto") == expected


@pytest.mark.parametrize("load", [load_policy, partial(load_reward_model, pad_token_id=0), load_process_model])
def test_a_folder_of_a_run_holds_all_that_its_config_describes(tmp_path: Path, load: Callable[..., object]):
    """An imported one may not, and the rest would be filled in, in any amount of memory."""
    file = save_policy(tmp_path / "base") / "config.json"
    load(ModelConfig(path="./base"), tmp_path, torch.float32)
    config = json.loads(file.read_text())
    for larger in ({"intermediate_size": 10**6}, {"num_hidden_layers": 2000}):
        file.write_text(json.dumps({**config, **larger}))
        with pytest.raises(ConfigFailure, match="more than its files hold"):
            load(ModelConfig(path="./base"), tmp_path, torch.float32)
