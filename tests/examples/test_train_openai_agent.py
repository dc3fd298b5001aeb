"""The training example runs as its docstring says: the agent in a separate process, the weights in training behind the gateway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from retrace import Client

from apps.accounts.models import Role
from apps.training.folders import folder_of
from apps.training.models import Run
from tests import factories
from tests.live import LiveStack
from tests.trainer.policies import save_policy
from trainer.records import read_trajectories

pytestmark = [pytest.mark.stack, pytest.mark.long]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE_SECONDS = 300


def test_the_example_trains_its_agent(live_stack: LiveStack) -> None:
    member = factories.member(Role.RESEARCHER)
    factories.task(
        of=member.workspace, environment="orders", key="refund-blue-lamp", instruction="Refund the blue lamp."
    )
    base = factories.trained_policy(of=member.workspace)
    (weights := folder_of(base.made_by.pk).path / "model").parent.mkdir(parents=True)
    save_policy(weights)
    config = json.loads((EXAMPLES / "train_openai_agent.json").read_text())
    config["optimizer"]["max_steps"] = 1
    config["sampling"] = {"max_new_tokens": 12}
    token = factories.token(member)
    environment = {
        **os.environ,
        "PYTHONPATH": str(EXAMPLES.parent / "client" / "src"),
        "RETRACE_URL": live_stack.url,
        "RETRACE_TOKEN": token,
    }
    with (
        Client(live_stack.url, token) as client,
        subprocess.Popen([sys.executable, str(EXAMPLES / "train_openai_agent.py")], env=environment) as runner,
    ):
        try:
            launched = client.runs.launch(algorithm="grpo", base=str(base.pk), config=config)
            run, deadline = Run.objects.get(pk=launched.id), time.monotonic() + PATIENCE_SECONDS
            while run.is_active and time.monotonic() < deadline:
                assert runner.poll() is None
                time.sleep(0.5)
                run.refresh_from_db()
        finally:
            runner.terminate()
    assert run.state == Run.State.FINISHED, run.failure
    rollouts = list(read_trajectories(folder_of(run.pk).path / "rollouts" / "step-000001.jsonl"))
    assert len(rollouts) == 8
    assert all(rollout.steps and rollout.outcome.success is False for rollout in rollouts)
    assert {tool["function"]["name"] for rollout in rollouts for tool in rollout.tools} == {"list_orders", "refund"}
