"""Learned rewards on the running product: everything is launched over REST, with the ids of policies made by earlier runs."""

import json
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from uuid import UUID

import httpx
import pytest

from apps.accounts.models import Role
from apps.policies.models import Endpoint, Policy
from apps.training.folders import folder_of
from tests import factories
from tests.live import LiveStack
from tests.workers import qa_rows
from tests.workers.frozen_versions import freeze

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]
PATIENCE_SECONDS = 300
ONLINE = {
    "tasks": {"environment": "qa", "levels": ["L2"], "count": 100},
    "sampling": {"max_new_tokens": 12},
    "samples": 8,
}


class Launcher:
    """A researcher who only uses REST."""

    def __init__(self, stack: LiveStack) -> None:
        self.member = factories.member(Role.RESEARCHER)
        self.workspace = self.member.workspace
        headers = {"Authorization": f"Bearer {factories.token(self.member)}"}
        self.client = httpx.Client(base_url=f"{stack.url}/api/v1/", headers=headers, timeout=60)

    def run(self, algorithm: str, **body: Any) -> dict[str, Any]:
        """Launch a run and wait until it has finished."""
        answer = self.client.post("runs", json={"algorithm": algorithm, **body})
        assert answer.status_code == 201, answer.text
        place, deadline = answer.headers["Location"], time.monotonic() + PATIENCE_SECONDS
        while (run := self.client.get(place).json())["state"] in ("queued", "starting", "running", "cancelling"):
            assert time.monotonic() < deadline, run
            time.sleep(0.5)
        assert run["state"] == "finished", run["failure"]
        return dict(run)

    def learn(self, algorithm: str, rows: list[dict[str, Any]], row_type: str, steps: int, **body: Any) -> str:
        """Train on these rows; returns the id of the resulting policy."""
        version = freeze({"train": rows}, of=self.workspace, row_type=row_type)
        optimizer = {"learning_rate": 0.003 if algorithm == "sft" else 0.001, "batch_size": 16, "max_steps": steps}
        run = self.run(
            algorithm,
            version=str(version.pk),
            **{**body, "config": {"optimizer": optimizer, "checkpoints": {"every": 1000}, **body.get("config", {})}},
        )
        return str(run["result"])

    def base(self, *, steps: int = 120) -> str:
        """A policy that answers a third of the questions correctly, and sometimes gives up."""
        config = {"model": {"scratch": qa_rows.TINY}}
        return self.learn("sft", qa_rows.demonstrations(), "demonstrations", steps, config=config)

    def online(
        self, base: str, terms: list[dict[str, Any]], *, steps: int, rollouts: int, **config: Any
    ) -> dict[str, Any]:
        optimizer = {"learning_rate": 0.002, "batch_size": rollouts, "max_steps": steps, "schedule": "constant"}
        optimizer["gradient_accumulation"] = 1
        changes = {
            **ONLINE,
            "rewards": {"terms": terms},
            "optimizer": optimizer,
            "checkpoints": {"every": 1000},
            **config,
        }
        return self.run("grpo", base=base, config=changes)

    def points(self, run: dict[str, Any]) -> list[dict[str, float]]:
        return [point["values"] for point in self.client.get(f"runs/{run['id']}/metrics").json()]


@pytest.fixture
def launcher(live_stack: LiveStack) -> Launcher:
    return Launcher(live_stack)


def test_a_reward_model_that_is_pleased_without_success_rings_the_alarms(launcher: Launcher):
    base = launcher.base()
    model = launcher.learn("reward_model", qa_rows.preferences(), "preference", 10, base=base)
    term = {"component": "learned_outcome", "policy": model, "weight": 1.0, "name": "people"}
    run = launcher.online(base, [term], steps=24, rollouts=32, beta=0.001, held_out=60, evaluate_every=4)
    assert run["rewards"] == [{"policy": model, "term": "people", "component": "learned_outcome", "weight": 1.0}]
    points = launcher.points(run)
    before, after = points[0], points[-1]
    assert before["eval/success"] > 0.22
    assert after["eval/success"] < 0.1
    assert after["rewards/people/mean"] > points[1]["rewards/people/mean"] + 0.3
    words = " ".join(alarm["text"] for alarm in run["alarms"])
    assert "Reward hacking: rewards/people/mean has risen" in words
    assert "KL blow-up: the divergence from the base" in words

    lineage = launcher.client.get(f"lineage/policies/{run['result']}").json()["origins"]
    assert [(line["policy"]["id"], line["reward"] and line["reward"]["weight"]) for line in lineage] == [
        (run["result"], None),
        (base, None),
        (model, 1.0),
        (base, None),
    ]
    assert launcher.client.get(f"lineage/policies/{model}").json()["learners"][0]["run"]["id"] == run["id"]


@pytest.mark.long
def test_a_process_reward_model_shapes_the_credit_of_turns(launcher: Launcher):
    base = launcher.base(steps=10)
    model = launcher.learn("process_reward_model", qa_rows.labeled_steps(), "steps", 4, base=base)
    terms = [{"component": "outcome"}, {"component": "learned_process", "policy": model, "weight": 0.4}]
    run = launcher.online(base, terms, steps=2, rollouts=8, credit="turn", held_out=4, kept=1)
    kept = rollouts_of(run)
    assert all(len(rollout["info"]["turn_advantages"]) == len(rollout["steps"]) for rollout in kept)
    scores = [rollout["info"]["reward_parts"]["learned_process"] for rollout in kept]
    advantages = [rollout["info"]["turn_advantages"][0] for rollout in kept]
    assert len(set(scores)) > 1
    by_total = sorted(range(len(kept)), key=lambda index: kept[index]["info"]["reward"])
    assert advantages[by_total[0]] < 0 < advantages[by_total[-1]]


@pytest.mark.parametrize("mode", [pytest.param("absolute", marks=pytest.mark.long), "ranking"])
def test_a_judge_of_the_workspace_is_asked_for_each_rollout_or_for_each_group(launcher: Launcher, mode: str):
    base = launcher.base(steps=10)
    with JudgeServer() as server:
        endpoint = Endpoint.objects.create(workspace=launcher.workspace, name="judges", base_url=server.url)
        judge = factories.policy(
            of=launcher.workspace, kind=Policy.Kind.ENDPOINT, location="strict-judge", endpoint=endpoint
        )
        term = {"component": "judge", "policy": str(judge.pk), "mode": mode, "weight": 0.3, "rubric": "Be brief."}
        run = launcher.online(base, [{"component": "outcome"}, term], steps=2, rollouts=8, held_out=0)
    assert {request["model"] for request in server.asked} == {"strict-judge"}
    assert all("Be brief." in request["messages"][0]["content"] for request in server.asked)
    assert len(server.asked) == {"absolute": 16, "ranking": 4}[mode]  # 8 rollouts in each of 2 steps; a group, twice
    means = [point["rewards/judge/mean"] for point in launcher.points(run) if "rewards/judge/mean" in point]
    assert len(means) == 2
    assert all(0 < mean <= 1 for mean in means)


def rollouts_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The kept rollouts of the first step."""
    file = folder_of(UUID(run["id"])).path / "rollouts" / "step-000001.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


class JudgeServer:
    """An OpenAI-like server that grades by length and stores the requests."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body)
                text = graded(body["messages"][-1]["content"])
                answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self) -> Self:
        Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()


def graded(question: str) -> str:
    rollouts = re.findall(r"<rollout number=(\d+)>\n(.*?)</rollout>", question, re.DOTALL)
    if not rollouts:
        return json.dumps({"reason": "x", "grade": 1 + len(question) % 10})
    return json.dumps({number: (1 + len(text) % 10) / 11 for number, text in rollouts})
