"""Real vLLM, on the CPU: rollouts against it, adapters swapped while it runs, whole models by a restart, all proven by the canary.

`make test-vllm` installs it and runs this. VLLM_PYTHON may name the Python of another environment that has vLLM.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest
from transformers import AutoTokenizer

from apps.jobs import lifecycle
from apps.policies.jobs import PUBLICATIONS
from apps.policies.models import Endpoint, Policy, Publication
from apps.policies.publishing import publish_policy, roll_back_publication
from tests import factories
from tests.trainer.runs import ROOT, run_here
from trainer.failures import ExitCode
from trainer.records import read_trajectories
from trainer.rendering.chat import render_prompt
from trainer.serving import keeper
from trainer.serving.client import ServerProblem, VllmServer
from workers.bridge.publishing import publish

PYTHON = Path(os.environ.get("VLLM_PYTHON") or ROOT / ".venv-vllm" / "bin" / "python")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.django_db,
    pytest.mark.skipif(not PYTHON.exists(), reason="vLLM is not installed here; `make test-vllm` does it"),
]
START_SECONDS = 400
OPTIONS = [
    *("--enable-lora", "--max-lora-rank", "16", "--max-model-len", "2048", "--max-num-seqs", "8"),
    *("--enforce-eager", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`base`, a small model that has learnt the office's tool calls, and two runs with LoRA that began from it."""
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


@pytest.fixture(scope="module")
def server(trained: Path) -> Iterator[VllmServer]:
    """vLLM under its keeper, with the base."""
    port = 18_000 + os.getpid() % 1_000
    pointer = trained / "served" / f"127.0.0.1-{port}.json"
    command = [sys.executable, keeper.__file__, "--pointer", str(pointer), "--default", str(trained / "base" / "model")]
    vllm = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--port", str(port), "--host", "127.0.0.1"]
    env = {
        **os.environ,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
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


@pytest.fixture
def member(trained: Path, settings):
    settings.RUNS_DIR = trained
    settings.SERVED_RUNS_DIR = str(trained)
    settings.SERVER_START_SECONDS = START_SECONDS
    return factories.member()


def policy(trained: Path, name: str, member) -> Policy:
    """A policy whose run is the folder `name`."""
    run_id = str(uuid5(NAMESPACE_URL, name))
    if not (trained / run_id).exists():
        (trained / run_id).symlink_to(trained / name)
    if already := Policy.objects.filter(made_by=run_id).first():
        return already
    report = json.loads((trained / name / "report.json").read_text())
    return factories.trained_policy(of=member.workspace, run_id=run_id, name=name, report=report)


def publish_here(what: Policy, way: str, server: VllmServer) -> Publication:
    endpoint = Endpoint.objects.get_or_create(workspace=what.workspace, name="vllm", base_url=server.url)[0]
    return done(publish_policy(policy=what, way=way, name="office", endpoint=endpoint, by=None))


def done(publication: Publication) -> Publication:
    taken = lifecycle.claim(PUBLICATIONS, publication.pk, worker="here:1")
    assert taken is not None
    publish(taken)
    publication.refresh_from_db()
    return publication


def test_a_policy_on_vllm_plays_episodes_through_its_own_template(trained: Path, server: VllmServer, tmp_path: Path):
    policy = {"engine": "server", "url": server.url, "model": "base", "sampling": {"max_new_tokens": 48}}
    tasks = {"environment": "office", "count": 6, "levels": ["L1"]}
    config = {"kind": "rollout", "policy": policy, "tasks": tasks, "budget": {"steps": 4}}
    assert run_here(tmp_path, config) == ExitCode.FINISHED
    played = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    assert len(played) == 6
    assert "policy_error" not in {each.outcome.termination for each in played}
    steps = [step for each in played for step in each.steps]
    assert any(step.message.get("tool_calls") for step in steps), "vLLM parsed no tool call"
    tokenizer = AutoTokenizer.from_pretrained(trained / "base" / "model")
    for each in played:
        first = each.steps[0]
        assert first.prompt_tokens == len(render_prompt(tokenizer, first.context, each.tools))
        assert len(first.info["logprobs"]) == first.completion_tokens


def test_adapters_are_swapped_while_it_runs_and_only_proven_ones(trained: Path, server: VllmServer, member):
    one, two = policy(trained, "one", member), policy(trained, "two", member)
    first = publish_here(one, "adapter", server)
    assert (first.state, first.error) == ("live", "")
    assert (
        first.canary["to_policy"] < 0.25 * first.canary["to_base"]
    )  # vLLM computes in bfloat16, the trainer in float32
    second = publish_here(two, "adapter", server)
    assert (second.state, second.error) == ("live", "")
    back = done(roll_back_publication(publication=second, by=member.user))
    assert (back.state, back.policy) == ("live", one)

    mixed_up = trained / "mixed"
    shutil.copytree(trained / "two", mixed_up)
    shutil.rmtree(mixed_up / "adapter")
    shutil.copytree(trained / "one" / "adapter", mixed_up / "adapter")
    refused = publish_here(policy(trained, "mixed", member), "adapter", server)
    assert (refused.state, refused.canary["finding"]) == ("refused", "other_policy")
    (mixed_up / "adapter" / "adapter_model.safetensors").unlink()
    missing = publish_here(policy(trained, "mixed", member), "adapter", server)
    assert missing.state == "failed"
    assert {model.name: model.root for model in server.models() if model.parent} == {
        "office": str(trained / str(uuid5(NAMESPACE_URL, "one")) / "adapter")
    }


def test_the_server_is_restarted_with_a_whole_model(trained: Path, server: VllmServer, member):
    live = publish_here(policy(trained, "two", member), "restart", server)
    assert (live.state, live.error) == ("live", "")
    assert live.canary["to_policy"] < 0.25 * live.canary["to_base"]
    assert [model.name for model in server.models()] == ["office"]
