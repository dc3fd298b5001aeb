"""QLoRA: refused where it isn't supported; its adapters can be merged into full weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig as PeftLoraConfig
from peft import get_peft_model

from contract.configs import LoraConfig, ModelConfig
from contract.events import Failed
from tests.trainer.algorithms.test_dpo import dpo_run
from tests.trainer.policies import save_policy
from tests.trainer.runs import events_of, run_here
from trainer.failures import ConfigFailure, ExitCode
from trainer.models.loader import load_policy, load_process_model, merge_into_whole, quantization


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine could do it")
def test_a_run_without_a_gpu_says_that_it_needs_one(tmp_path: Path):
    assert run_here(tmp_path / "run", dpo_run(tmp_path, lora={"quantized": True})) == ExitCode.CONFIG
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert "QLoRA needs an NVIDIA GPU" in last.message
    assert "LoRA runs everywhere" in last.advice


def test_without_the_package_the_advice_is_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("trainer.models.loader.find_spec", lambda _: None)
    with pytest.raises(ConfigFailure, match="package bitsandbytes") as refused:
        quantization(LoraConfig(quantized=True), torch.bfloat16)
    assert "pip install bitsandbytes" in refused.value.advice


def test_plain_lora_loads_plain_weights():
    assert quantization(None, torch.float32) == quantization(LoraConfig(), torch.float32) == {}


@pytest.mark.parametrize(("load", "task"), [(load_policy, "CAUSAL_LM"), (load_process_model, "TOKEN_CLS")])
def test_adapters_in_a_base_that_is_read_again_are_the_same_model(load: Any, task: str, tmp_path: Path):
    config = ModelConfig(path=str(save_policy(tmp_path / "base")))
    head = ["score"] if task == "TOKEN_CLS" else None
    peft = PeftLoraConfig(r=2, target_modules="all-linear", modules_to_save=head, task_type=task)
    model = get_peft_model(load(config, tmp_path, torch.float32), peft).eval()
    for name, weights in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.1)
    model.save_pretrained(tmp_path / "adapter")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        merged = merge_into_whole(model, tmp_path / "adapter", config, tmp_path, torch.float32).eval()
        torch.testing.assert_close(merged(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-5)
