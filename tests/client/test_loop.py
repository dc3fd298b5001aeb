"""The loop from rows to rollouts of a trained policy, using only the client: once synchronously, once with asyncio."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from retrace import AsyncClient, Client
from retrace.models.queues import BlindRun
from retrace.models.runs import Run

from apps.accounts.models import Role, Workspace
from tests import factories
from tests.client.rows import pairs
from tests.live import LiveStack
from tests.workers.frozen_versions import SMALLEST

pytestmark = pytest.mark.timeout(900)
TASKS = 8
PATIENCE = 400
CONFIG: dict[str, Any] = {"model": {"scratch": SMALLEST}, "optimizer": {"batch_size": 2, "max_steps": 2}, "seed": 1}


def better(sides: list[BlindRun]) -> Literal["2", "-2"]:
    """Prefer the side that says where the order is."""
    [left] = [side for side in sides if side.side == "left"]
    return "2" if "shelf" in str(left.steps) else "-2"


def test_the_loop_closes(client: Client, live_stack: LiveStack, workspace: Workspace, tmp_path: Path) -> None:
    batch = client.wait(client.import_(pairs(TASKS)), timeout=PATIENCE)
    assert (batch.trajectories, batch.tasks) == (2 * TASKS, TASKS)
    listed = list(client.trajectories.list(batch=batch.id, page_size=3))
    assert len({trajectory.id for trajectory in listed}) == 2 * TASKS
    assert client.trajectories.read(listed[0].id)["task"]["key"] == listed[0].task.key

    queue = client.wait(client.queues.create(name="Orders", filter=f"batch={batch.id}"), timeout=PATIENCE)
    assert (queue.state, queue.item_count) == ("open", TASKS)
    with Client(live_stack.url, factories.token(factories.member(Role.ANNOTATOR, of=workspace))) as annotator:
        while item := annotator.queues.next(queue.id):
            annotator.queues.judge(item.id, answer=better(item.runs), rationale="It is there.")
    preferences = list(client.queues.preferences(queue.id))
    assert {(abs(it.strength), it.annotator_kind) for it in preferences} == {(2, "person")}
    assert len(preferences) == TASKS

    dataset = client.datasets.create(name="Orders", license="CC0-1.0")
    version = client.versions.freeze(dataset.id, queues=[queue.id], train=75, validation=25, test=0)
    version = client.wait(version, timeout=PATIENCE)
    assert (version.state, sum(version.row_counts.values())) == ("frozen", TASKS)
    file = client.export(version, "train", format="parquet", to=tmp_path / "train.parquet")
    assert file.read_bytes()[:4] == b"PAR1"
    rows = client.load(version, "train")
    assert all("shelf" in row["chosen"][0]["content"] for row in rows)
    assert len(rows) == version.row_counts["train"]
    assert client.versions.card(dataset.id, version.number)["rows"] is not None
    assert client.versions.readme(dataset.id, version.number).startswith("---")

    run = client.runs.launch(algorithm="sft", version=version.id, preset="quick", name="orders", config=CONFIG)
    run = client.wait(run, timeout=PATIENCE)
    assert (run.state, run.step) == ("finished", 2)
    assert [point.step for point in client.runs.metrics(run.id)][-1] == 2
    policy = client.policies.read(str(run.result))
    [learner] = client.lineage.version(version.id).learners
    assert learner.policy is not None
    assert (learner.policy.id, learner.policy.name) == (policy.id, policy.name)

    rollouts = client.rollouts.start(policy=policy.id, environment="office", count=2, steps=1)
    rollouts = client.wait(rollouts, timeout=PATIENCE)
    assert (rollouts.state, rollouts.finished) == ("done", 2)
    assert {it.policy for it in client.trajectories.list(rollouts=rollouts.id)} == {policy.name}


@pytest.fixture
def annotators_token(workspace: Workspace) -> str:
    return factories.token(factories.member(Role.ANNOTATOR, of=workspace))


@pytest.mark.long
async def test_the_same_in_an_event_loop(
    live_stack: LiveStack, token: str, annotators_token: str, tmp_path: Path
) -> None:
    async with (
        AsyncClient(live_stack.url, token) as client,
        AsyncClient(live_stack.url, annotators_token) as annotator,
    ):
        batch = await client.wait(await client.import_(pairs(TASKS)), timeout=PATIENCE)
        listed = [trajectory.id async for trajectory in client.trajectories.list(batch=batch.id, page_size=3)]
        assert len(set(listed)) == 2 * TASKS

        queue = await client.wait(await client.queues.create(name="Orders", filter=f"batch={batch.id}"))
        while item := await annotator.queues.next(queue.id):
            await annotator.queues.judge(item.id, answer=better(item.runs))

        dataset = await client.datasets.create(name="Orders")
        version = await client.wait(await client.versions.freeze(dataset.id, queues=[queue.id]), timeout=PATIENCE)
        assert sum(version.row_counts.values()) == TASKS
        file = await client.export(version, "train", to=tmp_path / "train.jsonl")
        assert len(file.read_text().splitlines()) == version.row_counts["train"] == len(await client.load(version))

        endless = {**CONFIG, "optimizer": {"batch_size": 2, "max_steps": 100_000}}  # so that it can't be done first
        launched = await client.runs.launch(algorithm="sft", version=version.id, preset="quick", config=endless)
        cancelled: Run = await client.runs.cancel(launched.id)
        assert cancelled.state in ("cancelled", "cancelling")
        assert (await client.wait(launched, timeout=PATIENCE, check=False)).state == "cancelled"
