"""Rollouts and an experiment that runners play, on the running product: the real workers, the gateway, the client, agents over the openai package."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from openai import OpenAI
from retrace import Client, Episode

from apps.accounts.models import Role
from apps.annotation.models import Item
from apps.policies.registration import register_served
from apps.trajectories.models import Trajectory
from tests import factories
from tests.gateway.upstream import Upstream, says
from tests.live import LiveStack

pytestmark = pytest.mark.stack
TASKS = [{"key": f"t{number}", "instruction": f"Where is lamp {number}?", "held_out": True} for number in range(3)]


def test_runners_play_rollouts_and_an_experiment_though_one_breaks(live_stack: LiveStack) -> None:
    member = factories.member(Role.RESEARCHER)
    played: Counter[str] = Counter()

    def agent(episode: Episode) -> bool:
        library = OpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0)
        message = {"role": "user", "content": episode.task["instruction"]}
        reply = library.chat.completions.create(model="any", messages=[message])  # type: ignore[list-item]  # a plain dict is accepted
        played[episode.id] += 1
        return "shelf" in (reply.choices[0].message.content or "")

    with (
        Upstream(says("I don't know.")) as old_server,
        Upstream(says("It is on the shelf.")) as new_server,
        Client(live_stack.url, factories.token(member)) as client,
    ):
        old, new = (
            register_served(workspace=member.workspace, name=name, base_url=server.url, model="served", by=member.user)
            for name, server in (("old", old_server), ("new", new_server))
        )
        batch = client.rollouts.start(
            policy=str(new.pk), environment="shop", played_by="runners", tasks=TASKS, samples=2
        )
        lost = None
        while lost is None:
            lost = client.episodes.lease(runner="broken", rollouts=batch.id)
        client.sessions.abandon(lost.session, problem="KeyError: 'lamp'")
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                client.serve_agent(agent, environment="shop", parallel=3, until_idle=1)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            batch = client.wait(batch)
            assert (batch.finished, batch.succeeded, lost.id in played) == (6, 6, True)
            experiment = client.experiments.start(
                name="new against old", policy_a=str(old.pk), policy_b=str(new.pk), environment="shop", tasks=3
            )
            while (now := client.experiments.read(experiment.id)).state == "rolling_out":
                over.wait(0.3)
        finally:
            over.set()
            serving.join()
    assert (now.state, now.error) == ("labeling", "")
    assert max(played.values()) == 1
    of_old = Trajectory.objects.filter(rollout_batch=now.rollouts_a)
    assert sorted(of_old.values_list("task__key", "success")) == [("t0", False), ("t1", False), ("t2", False)]
    assert Trajectory.objects.filter(rollout_batch=now.rollouts_b, success=True).count() == 3
    assert Item.objects.filter(queue=now.queue).count() == 3
    steps = Trajectory.objects.filter(policy=new).first()
    assert steps is not None
    assert "token_ids" in steps.steps.get().info
