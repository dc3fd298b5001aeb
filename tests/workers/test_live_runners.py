"""A training run whose episodes runners play, on the running product: the real worker and trainer, the gateway, the client, agents over the openai package."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from retrace import Client, Episode

from apps.accounts.models import Membership, Role
from apps.training.folders import folder_of
from apps.training.models import Run
from contract.events import Metrics
from tests import factories
from tests.live import LiveStack
from tests.trainer.policies import save_policy
from tests.trainer.runs import events_of
from trainer.records import read_trajectories

pytestmark = pytest.mark.stack
PATIENCE_SECONDS = 240
TASKS = 4
NAME = "test-runner"


@pytest.fixture
def researcher(live_stack: LiveStack) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def client(live_stack: LiveStack, researcher: Membership) -> Iterator[Client]:
    with Client(live_stack.url, factories.token(researcher)) as client:
        yield client


def talk(episode: Episode) -> dict[str, Any]:
    """Two turns, and a single one of a sub-agent; capital letters are rewarded."""
    library = OpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0)
    messages: list[Any] = [{"role": "user", "content": episode.task["instruction"]}]
    text = ""
    for _ in range(2):
        message = library.chat.completions.create(model="any", messages=messages).choices[0].message
        text += message.content or ""
        messages += [message.model_dump(exclude_none=True), {"role": "user", "content": "Go on."}]
    below = [{"role": "system", "content": "You are asked by another agent."}, {"role": "user", "content": text}]
    library.chat.completions.create(model="any", messages=below)
    reward = min(1.0, sum(letter.isupper() for letter in text) / 20)
    return {"reward": reward, "success": reward > 0.5}


def launched(client: Client, researcher: Membership, folder: Path, **config: Any) -> Run:
    for number in range(TASKS):
        factories.task(
            of=researcher.workspace, environment="talk", key=f"t{number}", instruction=f"Say {number}.", held_out=False
        )
    factories.task(of=researcher.workspace, environment="talk", key="h", instruction="Say it.", held_out=True)
    base = factories.trained_policy(of=researcher.workspace)
    weights = folder_of(base.made_by.pk).path / "model"
    weights.parent.mkdir(parents=True)
    save_policy(weights)
    run = client.runs.launch(
        algorithm="grpo",
        base=str(base.pk),
        preset="quick",
        config={
            "played_by": "runners",
            "tasks": {"environment": "talk"},
            "rewards": {"terms": [{"component": "outcome", "measure": "reward"}]},
            "samples": 4,
            "optimizer": {"batch_size": 8, "gradient_accumulation": 1, "max_steps": 2, "learning_rate": 1e-3},
            "sampling": {"max_new_tokens": 12},
            "kept": 2,
            "held_out": 1,
            "evaluate_every": 2,
            **config,
        },
    )
    return Run.objects.get(pk=run.id)


def wait(run: Run) -> Run:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while run.is_active:
        assert time.monotonic() < deadline, f"{run.state} at step {run.step}"
        time.sleep(0.3)
        run.refresh_from_db()
    return run


def test_agents_elsewhere_are_trained_though_one_vanishes_and_one_breaks(
    client: Client, researcher: Membership, tmp_path: Path
) -> None:
    run = launched(client, researcher, tmp_path, lease_seconds=10)
    lost = None
    while lost is None:  # leased and never reported
        lost = client.episodes.lease(runner="vanished", environment="talk")
        time.sleep(0.2)
    broke: list[str] = []
    played: Counter[str] = Counter()

    def agent(episode: Episode) -> dict[str, Any]:
        if not broke:
            broke.append(episode.id)
            raise KeyError("lamp")
        result = talk(episode)
        played[episode.id] += 1
        return result

    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            client.serve_agent(agent, environment="talk", parallel=4, runner=NAME, until_idle=1)

    serving = threading.Thread(target=serve)
    serving.start()
    run = wait(run)
    over.set()
    serving.join()
    assert run.state == Run.State.FINISHED, run.failure
    assert run.result is not None
    assert max(played.values()) == 1
    assert {lost.id, *broke} <= set(played)
    steps = [
        list(read_trajectories(path)) for path in sorted((folder_of(run.pk).path / "rollouts").glob("step-*.jsonl"))
    ]
    assert [len(rollouts) for rollouts in steps] == [8, 8]
    for rollout in (rollout for rollouts in steps for rollout in rollouts):
        assert len(rollout.steps) == 2
        assert rollout.info["reward_parts"] == {"outcome": pytest.approx(rollout.outcome.reward)}
        assert all("token_ids" in step.info and "seam" not in step.info for step in rollout.steps)
    metrics = [line.event.values for line in events_of(folder_of(run.pk).path) if isinstance(line.event, Metrics)]
    # The sub-agent's calls are learned from as well.
    assert [values["chats"] for values in metrics if "chats" in values] == [2, 2]
