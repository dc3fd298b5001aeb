"""A real vLLM on the CPU: rollouts against it, adapters swapped while it runs, whole models after a restart, all verified by the canary."""

import json
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import psutil
import pytest
from transformers import AutoTokenizer

from apps.jobs import lifecycle
from apps.policies.models import Endpoint, Policy, Publication
from apps.policies.publication import PUBLICATIONS, publish_policy, roll_back_publication
from contract.events import Event, RolloutFinished, Warned
from tests import factories
from tests.trainer.runs import events_of, run_here
from tests.vllm.conftest import START_SECONDS, needs_vllm
from trainer.canary import FROM_CACHE, Canary, judge
from trainer.failures import ExitCode
from trainer.records import read_trajectories
from trainer.rendering.chat import render_prompt
from trainer.serving import keeper
from trainer.serving.client import VllmServer
from trainer.serving.prefix_cache import fill, from_cache, prompts_of
from workers.bridge import retirement
from workers.bridge.publication_job import publish
from workers.bridge.retirement import retire_all

pytestmark = [*needs_vllm, pytest.mark.django_db]


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
    assert "policy_error" not in {trajectory.outcome.termination for trajectory in played}
    steps = [step for trajectory in played for step in trajectory.steps]
    assert any(step.message.get("tool_calls") for step in steps), "vLLM parsed no tool call"
    tokenizer = AutoTokenizer.from_pretrained(trained / "base" / "model")
    for trajectory in played:
        first = trajectory.steps[0]
        assert first.prompt_tokens == len(render_prompt(tokenizer, first.context, trajectory.tools))
        assert len(first.info["logprobs"]) == first.completion_tokens


def test_many_chats_with_seeds_at_once_do_not_kill_it(server: VllmServer, tmp_path: Path):
    """vLLM 0.32 for the CPU crashes on a request with a seed if it splits the prompt."""
    policy = {"engine": "server", "url": server.url, "model": "base", "sampling": {"max_new_tokens": 16}}
    tasks = {"environment": "office", "count": 32, "levels": ["L1"]}
    config = {"kind": "rollout", "policy": policy, "tasks": tasks, "parallel": 32, "budget": {"steps": 2}}
    assert run_here(tmp_path, config) == ExitCode.FINISHED
    ends = Counter(trajectory.outcome.termination for trajectory in read_trajectories(tmp_path / "trajectories.jsonl"))
    assert (ends.total(), ends["policy_error"], ends["timeout"]) == (32, 0, 0)
    assert not [line for line in events_of(tmp_path) if isinstance(line.event, Warned)]


def test_adapters_are_loaded_side_by_side_and_only_proven_ones_are_live(
    trained: Path, server: VllmServer, member, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retirement, "GRACE_PERIOD", timedelta(0))
    one, two = policy(trained, "one", member), policy(trained, "two", member)
    first = publish_here(one, "adapter", server)
    assert (first.state, first.error) == ("live", "")
    assert (
        first.canary["to_policy"] < 0.25 * first.canary["to_base"]
    )  # vLLM computes in bfloat16, the trainer in float32
    second = publish_here(two, "adapter", server)
    assert (second.state, second.error) == ("live", "")
    assert second.canary["to_fresh"] < FROM_CACHE
    assert adapters_of(server) == {first.served_name, second.served_name}
    assert retire_all() == [first.served_name]
    assert adapters_of(server) == {second.served_name}
    back = done(roll_back_publication(publication=second, by=member.user))
    assert (back.state, back.policy) == ("live", one)
    retire_all()

    mixed_up = trained / "mixed"
    shutil.copytree(trained / "two", mixed_up)
    shutil.rmtree(mixed_up / "adapter")
    shutil.copytree(trained / "one" / "adapter", mixed_up / "adapter")
    refused = publish_here(policy(trained, "mixed", member), "adapter", server)
    assert (refused.state, refused.canary["finding"]) == ("refused", "other_policy")
    (mixed_up / "adapter" / "adapter_model.safetensors").unlink()
    missing = publish_here(policy(trained, "mixed", member), "adapter", server)
    assert missing.state == "failed"
    assert adapters_of(server) == {back.served_name}


def adapters_of(server: VllmServer) -> set[str]:
    return {model.name for model in server.models() if model.parent}


def test_the_cache_of_an_adapter_that_was_loaded_in_place_is_noticed(trained: Path, server: VllmServer):
    """vLLM does this if other files are loaded from the same path under the same name, as Retrace once did."""
    place = trained / "in_place"
    shutil.copytree(trained / "one" / "adapter", place)
    body = {"lora_name": "in-place", "lora_path": str(place), "load_inplace": True}
    canary = Canary(**json.loads((trained / "two" / "canary.json").read_text()))
    prompts = prompts_of(canary.probes, longest=2048)
    server._ask("POST", "load_lora_adapter", body)
    fill(server, "in-place", prompts)
    shutil.copytree(trained / "two" / "adapter", place, dirs_exist_ok=True)
    server._ask("POST", "load_lora_adapter", body)
    try:
        cached = from_cache(server, "in-place", prompts)
        verdict = judge(canary, server.logprobs("in-place", canary.probes), cached=cached)
        assert (verdict.finding, verdict.to_policy < 0.25 * verdict.apart) == ("others_cache", True)
        server.load_adapter("of-its-own", str(place))
        assert not from_cache(server, "of-its-own", prompts).is_mixed_up
    finally:
        server.unload_adapter("in-place")
        server.unload_adapter("of-its-own")


def test_a_server_that_is_killed_in_the_middle_of_rollouts_takes_nothing_along(server: VllmServer, tmp_path: Path):
    """Its keeper ends its engine, which survives it, and restarts it."""
    policy = {"engine": "server", "url": server.url, "model": "base", "sampling": {"max_new_tokens": 24}}
    tasks = {"environment": "office", "count": 12, "levels": ["L1"]}
    config = {"kind": "rollout", "policy": policy, "tasks": tasks, "parallel": 4, "budget": {"steps": 3}}
    killed: list[int] = []
    engines: list[psutil.Process] = []

    def kill_once(event: Event) -> bool:
        if isinstance(event, RolloutFinished) and not killed:
            port = f"--port {server.url.rsplit(':', 1)[1].removesuffix('/v1')} "
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                if port in line and "vllm.entrypoints" in line and keeper.__file__ not in line:
                    killed.append(process.pid)
                    engines.extend(process.children(recursive=True))
                    process.kill()
        return False

    assert run_here(tmp_path, config, stop_on=kill_once) == ExitCode.FINISHED
    assert killed
    assert engines
    assert not [engine for engine in engines if engine.is_running() and engine.status() != psutil.STATUS_ZOMBIE]
    ends = Counter(trajectory.outcome.termination for trajectory in read_trajectories(tmp_path / "trajectories.jsonl"))
    assert (ends.total(), ends["policy_error"], ends["timeout"]) == (12, 0, 0)
    assert [line for line in events_of(tmp_path) if isinstance(line.event, Warned)]


def test_the_server_is_restarted_with_a_whole_model(trained: Path, server: VllmServer, member):
    live = publish_here(policy(trained, "two", member), "restart", server)
    assert (live.state, live.error) == ("live", "")
    assert live.canary["to_policy"] < 0.25 * live.canary["to_base"]
    assert [model.name for model in server.models()] == [live.served_name]
