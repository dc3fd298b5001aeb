"""The example plays episodes of a real server; only the policy is scripted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import retrace

from apps.common.stack import readiness
from contract.messages import Message
from contract.trajectory import Task
from tests.gateway.upstream import Reply, Upstream, calls, says
from tests.trainer.environments.scripted_episodes import first_tasks, played
from tests.trainer.runs import ROOT
from trainer.environments.office import Office


@pytest.fixture
def office(free_port: int) -> Iterator[str]:
    address = f"http://127.0.0.1:{free_port}"
    command = [sys.executable, "-m", "trainer.environments.server", "office", "--port", str(free_port)]

    def answers() -> bool:
        try:
            return httpx.get(f"{address}/health").is_success
        except httpx.TransportError:
            return False

    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            readiness.wait_for((), answers)
            yield address
        finally:
            process.terminate()


@pytest.fixture
def agent(office: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(ROOT) / "examples"))
    from openenv_agent import Agent

    return Agent(office)


def episode(task: Task, upstream: Upstream, *, max_calls: int = 10) -> retrace.Episode:
    fields = {"id": "e", "run": "r", "run_name": "grpo", "moment": "step 1", "attempt": 0, "session": "s"}
    where = {"base_url": upstream.url, "api_key": "key", "lease_seconds": 60, "max_calls": max_calls}
    return retrace.Episode(**fields, **where, task=task.to_json())


def reply(message: Message) -> Reply:
    """A policy's reply, as a server returns it."""
    written = {**message, "tool_calls": [wired(call) for call in message.get("tool_calls") or []]}
    return lambda body: written if written["tool_calls"] else {"role": "assistant", "content": message["content"]}


def wired(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"])}}


def test_an_episode_goes_as_it_goes_inside(agent: Any) -> None:
    [task] = first_tasks(Office, 1, levels=("L3",), seed=7)
    inside = played(Office, task, "expert")
    assert inside.outcome.success
    with Upstream(*(reply(step.message) for step in inside.steps)) as upstream:
        outcome = agent.play(episode(task, upstream, max_calls=40))
    assert outcome == {"success": True, "reward": pytest.approx(sum(step.reward or 0 for step in inside.steps))}
    first, last = upstream.requests[0], upstream.requests[-1]
    assert first["messages"] == inside.steps[0].context
    assert first["tools"] == inside.tools
    results = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    assert results == [message["content"] for step in inside.steps[1:] for message in step.context]


def test_mistakes_of_a_policy_are_told_to_it(agent: Any) -> None:
    [task] = first_tasks(Office, 1)
    with Upstream(calls("find_contact", "not JSON"), calls("dance", "{}"), says("Done.")) as upstream:
        outcome = agent.play(episode(task, upstream))
    assert outcome["success"] is False
    results = [message["content"] for message in upstream.requests[-1]["messages"] if message["role"] == "tool"]
    assert ["no JSON" in results[0], "dance" in results[1]] == [True, True]


def test_it_makes_no_more_calls_than_it_may(agent: Any) -> None:
    [task] = first_tasks(Office, 1)
    with Upstream(calls("find_contact", '{"name": "Nobody"}')) as upstream:
        agent.play(episode(task, upstream, max_calls=3))
    assert len(upstream.requests) == 3


def test_a_task_that_the_server_does_not_know_is_given_back_with_its_message(agent: Any) -> None:
    foreign = Task(key="order-17", instruction="Refund order 17.", environment="orders")
    with Upstream() as upstream, pytest.raises(ValueError, match=r"the server can't set up this task: \S"):
        agent.play(episode(foreign, upstream))
