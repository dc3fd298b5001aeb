"""The whole loop over REST, from an import to the judgments of an experiment, on the real stack.

Every value in a request comes from an earlier response.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from apps.accounts.models import Role
from tests import factories
from tests.live import LiveStack
from tests.workers.frozen_versions import SMALLEST

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(1200)]
PATIENCE_SECONDS = 400
TASKS = 8


class Caller:
    """A program with a person's token."""

    def __init__(self, stack: LiveStack, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=f"{stack.url}/api/v1", headers=headers, timeout=60)

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def post(self, path: str, body: object = None, *, expects: tuple[int, ...] = (200, 201, 202, 204)) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.status_code in expects, (path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def wait(self, path: str, is_over: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_over(state := self.get(path)):
            assert time.monotonic() < deadline, state
            time.sleep(0.5)
        return state


def assistant(words: str) -> dict[str, str]:
    return {"role": "assistant", "content": words}


def rows() -> bytes:
    """Two attempts at each task, one of which is clearly better."""
    return b"".join(
        json.dumps(
            {
                "format": "retrace/1",
                "id": f"{way}-{number}",
                "task": {"key": f"order-{number}", "instruction": f"Find order {number}.", "environment": "office"},
                "policy": f"{way}-agent",
                "steps": [
                    {"context": [{"role": "user", "content": f"Find order {number}."}], "message": assistant(words)},
                ],
            }
        ).encode()
        + b"\n"
        for number in range(TASKS)
        for way, words in (("good", f"Order {number} is on shelf {number}."), ("bad", "I don't know."))
    )


def judge_all(annotator: Caller, queue: str, better: Callable[[Any], bool]) -> int:
    """Take each item and prefer the side that is `better`; returns the number of items."""
    count = 0
    while held := annotator.post(f"/queues/{queue}/next"):
        sides = {run["side"]: better(run) for run in held["runs"]}
        answer = "2" if sides["left"] and not sides["right"] else "-2" if sides["right"] else "0"
        annotator.post(f"/assignments/{held['id']}/judgment", {"answer": answer, "rationale": "It is there."})
        count += 1
    return count


def freeze(researcher: Caller, dataset: str, queue: str) -> Any:
    recipe = {"queues": [queue], "train": 75, "validation": 25, "test": 0}
    made = researcher.post(f"/datasets/{dataset}/versions", recipe)
    path = f"/datasets/{dataset}/versions/{made['number']}"
    version = researcher.wait(path, lambda version: version["state"] != "freezing")
    assert version["state"] == "frozen", version
    return version


def train(researcher: Caller, version: str, name: str, seed: int) -> Any:
    config = {"model": {"scratch": SMALLEST}, "optimizer": {"batch_size": 2, "max_steps": 2}, "seed": seed}
    launch = {"algorithm": "sft", "version": version, "preset": "quick", "name": name, "config": config}
    return researcher.post("/runs", launch)


def test_the_loop_closes_over_rest_with_what_rest_answers(live_stack: LiveStack) -> None:
    workspace = factories.workspace()
    researcher, *annotators = (
        Caller(live_stack, factories.token(factories.member(role, of=workspace)))
        for role in (Role.RESEARCHER, Role.ANNOTATOR, Role.ANNOTATOR)
    )
    sent = researcher.http.post("/imports", files={"file": ("runs.jsonl", rows())})
    assert sent.status_code in (201, 202), sent.text
    batch = researcher.wait(f"/imports/{sent.json()['id']}", lambda it: it["state"] not in ("waiting", "running"))
    assert (batch["state"], batch["trajectories"]) == ("done", 2 * TASKS)
    [one, *_] = researcher.get(f"/trajectories?batch={batch['id']}")["results"]

    settings = {"name": "Orders", "filter": f"batch={batch['id']}", "overlap": 2, "guidelines": "Prefer what answers."}
    queue = researcher.post("/queues", settings)["id"]
    filled = researcher.wait(f"/queues/{queue}", lambda it: it["state"] != "filling")
    assert (filled["state"], filled["item_count"]) == ("open", TASKS)
    counts = [judge_all(annotator, queue, lambda run: "shelf" in str(run["steps"])) for annotator in annotators]
    assert counts == [TASKS, TASKS]
    preferences = researcher.get(f"/queues/{queue}/preferences")["results"]
    assert len(preferences) == 2 * TASKS
    assert {abs(preference["strength"]) for preference in preferences} == {2}

    dataset = researcher.post("/datasets", {"name": "Orders"})["id"]
    version = freeze(researcher, dataset, queue)
    exported = researcher.http.get(f"/datasets/{dataset}/versions/{version['number']}/rows?format=jsonl&split=train")
    assert all("shelf" in str(json.loads(row)["chosen"]) for row in exported.text.splitlines())
    assert len(exported.text.splitlines()) == version["row_counts"]["train"]

    runs = [train(researcher, version["id"], f"orders-{seed}", seed) for seed in (1, 2)]
    over = [researcher.wait(f"/runs/{run['id']}", lambda it: it["finished_at"] is not None) for run in runs]
    assert [run["state"] for run in over] == ["finished", "finished"], over
    policies = [researcher.get(f"/policies/{run['result']}") for run in over]
    assert [policy["run"] for policy in policies] == [run["id"] for run in runs]

    wanted = {"policy": policies[0]["id"], "environment": one["task"]["environment"], "count": 2, "steps": 1}
    rollouts = researcher.post("/rollouts", wanted)
    done = researcher.wait(f"/rollouts/{rollouts['id']}", lambda it: it["finished_at"] is not None)
    assert (done["state"], done["finished"]) == ("done", 2), done
    played = researcher.get(f"/trajectories?rollouts={rollouts['id']}")["results"]
    assert {run["policy"] for run in played} == {policies[0]["name"]}

    compared = {"policy_a": policies[0]["id"], "policy_b": policies[1]["id"], "environment": one["task"]["environment"]}
    plan = {"name": "Which one?", "tasks": 2, "min_tasks": 2, "steps": 1}
    experiment = researcher.post("/experiments", {**compared, **plan})["id"]
    started = researcher.wait(f"/experiments/{experiment}", lambda it: it["state"] != "rolling_out")
    assert started["queue"], started
    judged = judge_all(annotators[0], started["queue"], lambda run: run["side"] == "left")
    assert judged == 2
    ended = researcher.wait(f"/experiments/{experiment}", lambda it: it["state"] == "stopped")
    assert ended["verdict"], ended
    promoted = {"policy": policies[1]["id"], "reason": "Its answers are shorter."}
    researcher.post(f"/experiments/{experiment}/promote", promoted)
    assert researcher.get(f"/policies/{policies[1]['id']}")["champion_of"] == [one["task"]["environment"]]

    again = freeze(researcher, dataset, started["queue"])
    rows_of_both = [again["row_counts"][split] for split in ("train", "validation", "test")]
    assert sum(rows_of_both) == judged
