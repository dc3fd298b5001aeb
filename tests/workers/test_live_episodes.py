"""An episode in the trainer is followed step by step by viewers."""

import asyncio
import json
from pathlib import Path

import pytest

from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes
from contract.configs import Budget, ScriptedPolicy
from tests import factories
from tests.trajectories.uploads import rich
from trainer.environments import environment_named
from trainer.rollouts import unfinished
from trainer.rollouts.episode import play
from trainer.rollouts.scripted import ScriptedEngine
from workers.bridge.live_episodes import Relay

pytestmark = pytest.mark.django_db


def test_an_episode_is_followed_step_by_step_and_is_over_when_its_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "EVERY_SECONDS", 0)
    home = factories.workspace()
    batch = RolloutBatch.objects.create(workspace=home, policy=factories.policy(of=home), environment="office", total=1)
    relay = Relay(batch.pk, tmp_path)
    environment = environment_named("office")
    task = next(iter(environment.tasks(levels=environment.levels, split="train", seed=0)))
    agent = ScriptedEngine(ScriptedPolicy(engine="scripted", script="expert"), environment).begin(task, 0)
    snapshots: list[bytes] = []

    world = environment_named("office")()
    folder = unfinished.UnfinishedFolder(tmp_path)
    with folder.begin("expert:task#0", task, "expert", world.tools) as episode:

        def watch(steps: list[unfinished.Step], observation: list[unfinished.Message]) -> None:
            episode.watch(steps, observation)
            [path] = folder.path.iterdir()
            snapshots.append(path.read_bytes())

        trajectory = asyncio.run(play(world, task, agent, Budget(), watch=watch))
        [path] = folder.path.iterdir()
        sent = []
        for snapshot in snapshots:
            path.write_bytes(snapshot)
            assert not relay.scan()
            assert relay.forward()
            [playing] = live_episodes.playing(batch.pk)
            sent.append(playing.steps)
        steps, answer = live_episodes.steps_of(batch.pk, playing.name)
        assert [step.message for step in steps] == [step.message for step in trajectory.steps]
        assert answer == trajectory.closing
    assert sent == list(range(1, len(trajectory.steps) + 1))
    assert relay.scan()
    assert relay.forward()
    assert live_episodes.playing(batch.pk) == []


def test_an_episode_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    home = factories.workspace()
    batch = RolloutBatch.objects.create(workspace=home, policy=factories.policy(of=home), environment="office", total=2)
    folder = unfinished.UnfinishedFolder(tmp_path)
    (folder.path / "a.json").write_text("[]")
    (folder.path / "b.json").write_text(json.dumps(rich(1)))
    relay = Relay(batch.pk, tmp_path)
    assert not relay.scan()
    assert relay.forward()
    assert [episode.name for episode in live_episodes.playing(batch.pk)] == ["b"]
    assert not relay.forward()
