"""A traffic split on the real stack: agents request its name, people judge pairs blind as they arrive, the stopping rule decides, the winner answers all."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import retrace

from apps.accounts.models import Role
from apps.policies.models import Policy
from apps.policies.registration import register_served
from tests import factories
from tests.gateway.upstream import Upstream, says
from tests.live import LiveStack
from tests.stack.test_rest_loop import Caller

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]
TASKS, ATTEMPTS = 24, 4
PATIENCE_SECONDS = 240


def play(client: retrace.Client, number: int) -> str:
    """One turn of an agent at a task; returns the reply."""
    question = f"Where is order {number}?"
    with client.session(split="orders", task={"key": f"order-{number}", "instruction": question}) as session:
        body = {"model": "orders", "messages": [{"role": "user", "content": question}]}
        headers = {"Authorization": f"Bearer {session.api_key}"}
        reply = httpx.post(f"{session.base_url}/chat/completions", json=body, headers=headers, timeout=60)
        assert reply.status_code == 200, reply.text
        content: str = reply.json()["choices"][0]["message"]["content"]
        session.finish(outcome="success" if "shelf" in content else "failure")
    assert reply.json()["model"] == "orders"
    return content


def until(read: Any, is_so: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so(value := read()):
        assert time.monotonic() < deadline, value
        time.sleep(0.5)
    return value


def judge_open_pairs(annotator: Caller, queue: str) -> int:
    """Prefer the answer that names the shelf, until nothing is left or the experiment's end has closed the queue; returns the number of judgments."""
    count = 0
    while (taken := annotator.http.post(f"/queues/{queue}/next")).status_code == 200:
        held = taken.json()
        left = next(run for run in held["runs"] if run["side"] == "left")
        answer = {"answer": "2" if "shelf" in str(left["steps"]) else "-2"}
        count += annotator.http.post(f"/assignments/{held['id']}/judgment", json=answer).is_success
    assert taken.status_code in (204, 409), taken.text
    return count


def test_a_split_is_compared_live_and_the_winner_answers_all(live_stack: LiveStack) -> None:
    workspace = factories.workspace()
    member = factories.member(Role.RESEARCHER, of=workspace)
    token = factories.token(member)
    annotator = Caller(live_stack, factories.token(factories.member(Role.ANNOTATOR, of=workspace)))
    with (
        Upstream(says("I don't know.")) as old_server,
        Upstream(says("It is on the shelf.")) as new_server,
        retrace.Client(live_stack.url, token) as client,
    ):
        old, new = (
            register_served(workspace=workspace, name=name, base_url=server.url, model="served", by=member.user)
            for name, server in (("old", old_server), ("new", new_server))
        )
        split = client.traffic_splits.create(
            name="orders",
            environment="shop",
            champion=str(old.pk),
            arms=[{"policy": str(old.pk)}, {"policy": str(new.pk)}],
        )
        started = client.experiments.start(
            name="new against old", trajectories="live", split=split.id, tasks=TASKS, min_tasks=4
        )
        numbers = [number for number in range(TASKS) for _ in range(ATTEMPTS)]
        with ThreadPoolExecutor(8) as agents:
            replies = list(agents.map(lambda number: play(client, number), numbers))
        assert {"I don't know.", "It is on the shelf."} == set(replies)

        queue = until(lambda: client.experiments.read(started.id).queue, lambda queue: queue is not None)
        judged = 0

        def judge_more() -> Any:
            nonlocal judged
            judged += judge_open_pairs(annotator, queue)
            return client.experiments.read(started.id)

        ended = until(judge_more, lambda experiment: experiment.state == "stopped")
        assert (ended.verdict["outcome"], ended.verdict["stopped_by_rule"]) == ("b_better", True)
        assert 4 <= ended.verdict["win_rate"]["n"] <= judged <= TASKS

        figures = client.traffic_splits.read(split.id).figures
        rates = {arm["policy"]: arm["success"]["value"] for arm in figures["arms"]}
        assert rates == {str(old.pk): 0.0, str(new.pk): 1.0}
        assert sum(arm["sessions"] for arm in figures["arms"]) == len(numbers)
        assert sum(arm["calls"] for arm in figures["arms"]) == len(numbers)
        assert not figures["is_alarming"]

        client.experiments.promote(started.id, policy=str(new.pk), reason="It finds orders.")
        after = client.traffic_splits.read(split.id)
        assert (after.is_on, after.champion) == (False, str(new.pk))
        assert [play(client, 1000 + number) for number in range(4)] == ["It is on the shelf."] * 4
        assert Policy.objects.get(pk=new.pk).sessions.count() >= 4
