"""DPO and GRPO on a real GPU, with random models of Qwen's 0.5B shape. `python -m bench.gpu_dpo` compares them with plain TRL."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.gpu import SHAPES, make_policy
from bench.gpu_dpo import rows_of
from contract.events import Metrics, Started
from tests.trainer.runs import events_of, run_here
from trainer.failures import ExitCode

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
SHAPE = SHAPES["0.5B"]
OPTIMIZER = {"batch_size": 4, "max_steps": 4, "learning_rate": 1e-5, "gradient_checkpointing": True, "max_length": 4096}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    make_policy(SHAPE, folder / "base")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of(SHAPE)[:24]))
    return folder


def trained(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The report of a run, checked to have used the GPU and to have finite losses."""
    folder.mkdir()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert run_here(folder, config) == ExitCode.FINISHED, (folder / "events.jsonl").read_text()[-3000:]
    events = [line.event for line in events_of(folder)]
    assert next(event for event in events if isinstance(event, Started)).device.startswith("cuda")
    losses = [event.values["loss"] for event in events if isinstance(event, Metrics) and "loss" in event.values]
    assert losses
    assert None not in losses
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    assert report["gpu_peak_memory_mb"] > 1_000
    assert report["canary"]["apart"] >= 0
    return report


def dpo(home: Path, **changes: Any) -> dict[str, Any]:
    model, data = {"path": str(home / "base")}, {"train": str(home / "rows.jsonl")}
    return {"kind": "dpo", "model": model, "data": data, "optimizer": OPTIMIZER, **changes}


def test_dpo_trains_and_adapters_take_less_memory(home: Path, tmp_path: Path):
    whole = trained(tmp_path / "whole", dpo(home))
    adapters = trained(tmp_path / "adapters", dpo(home, lora={"rank": 16}))
    assert adapters["gpu_peak_memory_mb"] < whole["gpu_peak_memory_mb"]


def test_adapters_train_on_four_bits(home: Path, tmp_path: Path):
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed here")
    trained(tmp_path / "run", dpo(home, lora={"rank": 16, "quantized": True}))


def test_grpo_plays_and_learns_on_the_gpu(home: Path, tmp_path: Path):
    config = {
        "kind": "grpo",
        "model": {"path": str(home / "base")},
        "optimizer": OPTIMIZER,
        "tasks": {"environment": "qa", "count": 20},
        "samples": 4,
        "sampling": {"max_new_tokens": 64},
        "held_out": 4,
    }
    report = trained(tmp_path / "run", config)
    assert report["rollouts"] == 16
