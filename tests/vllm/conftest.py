"""vLLM on the CPU, and the models that it serves, trained once and started once.

`make test-vllm` installs it and runs these tests. VLLM_PYTHON may name the Python of another environment that has vLLM.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.runs import ROOT, run_here
from trainer.failures import ExitCode
from trainer.serving import keeper
from trainer.serving.client import ServerProblem, VllmServer

PYTHON = Path(os.environ.get("VLLM_PYTHON") or ROOT / ".venv-vllm" / "bin" / "python")
needs_vllm = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not PYTHON.exists(), reason="vLLM is not installed here; `make test-vllm` does it"),
]
START_SECONDS = 400
OPTIONS = [
    *("--enable-lora", "--max-loras", "4", "--max-lora-rank", "16", "--max-model-len", "2048", "--max-num-seqs", "32"),
    *("--max-num-batched-tokens", "65536"),  # 32 times 2048: on a CPU, a request with a seed must not be split
    *("--enforce-eager", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    "--enable-scale-out",
]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`base`, a small model that has learned the office's tool calls, and two LoRA runs that started from it."""
    home = tmp_path_factory.mktemp("vllm")
    for script in ("expert", "careless"):
        tasks = {"environment": "office", "split": "train", "count": 120, "levels": ["L1"]}
        do(home / script, {"kind": "rollout", "policy": {"engine": "scripted", "script": script}, "tasks": tasks})
    rows = {"data": {"train": "../expert/trajectories.jsonl"}, "log_every": 20}
    scratch = {"layers": 2, "hidden": 128, "intermediate": 256, "vocabulary": 700}
    steps = {"batch_size": 16, "max_steps": 150, "learning_rate": 2e-3, "max_length": 1024}
    do(home / "base", {"kind": "sft", "model": {"scratch": scratch}, "optimizer": steps, **rows})
    for name, script in (("one", "expert"), ("two", "careless")):
        config = {
            "kind": "sft",
            "model": {"path": "../base/model"},
            "lora": {"rank": 8},
            "data": {"train": f"../{script}/trajectories.jsonl"},
            "optimizer": {**steps, "max_steps": 5, "learning_rate": 1e-2},
        }
        do(home / name, config)
    return home


def do(folder: Path, config: dict[str, Any]) -> None:
    folder.mkdir()
    assert run_here(folder, config) == ExitCode.FINISHED, (folder / "events.jsonl").read_text()[-2000:]


@pytest.fixture(scope="session")
def server(trained: Path) -> Iterator[VllmServer]:
    """vLLM under its keeper, serving the base."""
    port = 18_000 + os.getpid() % 1_000
    pointer = trained / "served" / f"127.0.0.1-{port}.json"
    command = [sys.executable, keeper.__file__, "--pointer", str(pointer), "--default", str(trained / "base" / "model")]
    vllm = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--port", str(port), "--host", "127.0.0.1"]
    env = {
        **os.environ,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    log = (trained / "vllm.log").open("wb")
    process = subprocess.Popen([*command, "--", *vllm, *OPTIONS], env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        with VllmServer(f"http://127.0.0.1:{port}/v1", timeout=120) as client:
            until_up(client, trained / "vllm.log")
            yield client
    finally:
        process.terminate()
        process.wait(90)
        log.close()


def until_up(client: VllmServer, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(ServerProblem):
            client.models()
            return
        time.sleep(1)
    pytest.fail(f"vLLM did not come up in {START_SECONDS} s:\n{log.read_text()[-4000:]}")
