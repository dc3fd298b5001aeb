"""Rollouts with the real trainer: results are stored as trajectories, once."""

import io
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils.timezone import now

from apps.annotation.desk.continuations import CONTINUATIONS
from apps.annotation.models import Continuation
from apps.common.environments import BUILT_IN as FACTS
from apps.ingest.records import BadRow
from apps.jobs import lifecycle
from apps.jobs.models import Failure, JobState
from apps.policies.models import Endpoint, Policy
from apps.trajectories.models import RolloutBatch, Step, Trajectory
from apps.trajectories.rollouts import rollout_batches
from apps.trajectories.rollouts.rollout_batches import ROLLOUTS, CannotAct, start_rollouts
from contract.configs import RolloutConfig, ServerPolicy
from tests import factories
from tests.jobs.builders import continuation
from tests.trainer.rollouts.openai_like import Server, looks_up_then_stops
from trainer.environments import ENVIRONMENTS as BUILT_IN
from workers.bridge import supervisor
from workers.bridge.process import TrainerProcess
from workers.bridge.rollouts import OUTPUT, RolloutJob, complete_lines, rollout_config
from workers.bridge.supervisor import supervise

pytestmark = pytest.mark.django_db


def a_batch(count: int = 3, samples: int = 2) -> RolloutBatch:
    policy = factories.policy(kind=Policy.Kind.SCRIPTED, location="expert", name="the expert")
    return start_rollouts(
        workspace=policy.workspace,
        policy=policy,
        environment="office",
        tasks={"split": "held_out", "count": count, "seed": 4},
        samples=samples,
        by=factories.member(of=policy.workspace).user,
    )


def work_on(batch: RolloutBatch) -> RolloutBatch:
    taken = lifecycle.claim(ROLLOUTS, batch.pk, worker="here:1")
    assert taken is not None
    supervise(RolloutJob(taken))
    batch.refresh_from_db()
    return batch


def test_the_environments_that_people_choose_from_are_the_trainers():
    assert {name: (facts.levels, facts.scripts) for name, facts in FACTS.items()} == {
        name: (environment.levels, tuple(environment.scripts)) for name, environment in BUILT_IN.items()
    }


def test_a_batch_brings_one_trajectory_an_episode():
    batch = work_on(a_batch(count=3, samples=2))
    assert (batch.state, batch.finished, batch.total, batch.error) == (JobState.DONE, 6, 6, "")
    arrived = Trajectory.objects.filter(rollout_batch=batch)
    assert arrived.count() == 6
    assert set(arrived.values_list("source", "policy__name", "task__environment", "task__held_out")) == {
        ("rollout", "the expert", "office", True)
    }
    assert arrived.filter(success=True).count() == batch.succeeded
    assert Step.objects.filter(trajectory__rollout_batch=batch).count() == sum(
        arrived.values_list("step_count", flat=True)
    )


def test_a_batch_hands_itself_back_for_somebody_at_the_desk_and_goes_on_later(monkeypatch):
    episodes, asked_to_stop = 40, threading.Event()
    terminate = TrainerProcess.terminate

    def ask_and_tell(process: TrainerProcess) -> None:
        terminate(process)
        asked_to_stop.set()

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        if len(server.requests) > 2:  # so that the child can't finish before it's asked to stop
            asked_to_stop.wait(timeout=30)
        return 200, looks_up_then_stops(body)

    monkeypatch.setattr("workers.bridge.rollouts.MIN_SECONDS", 0.0)
    monkeypatch.setattr(TrainerProcess, "terminate", ask_and_tell)
    with Server() as server:
        server.reply = reply
        home = factories.workspace()
        endpoint = Endpoint.objects.create(workspace=home, base_url=server.url)
        policy = factories.policy(of=home, kind=Policy.Kind.ENDPOINT, location="m", endpoint=endpoint)
        batch = start_rollouts(
            workspace=home, policy=policy, environment="office", tasks={"count": episodes}, samples=1, by=None
        )
        config = continuation(home)
        Continuation.objects.update(queued_at=now() - timedelta(seconds=10))
        work_on(batch)
        assert (batch.state, batch.losses, batch.failure) == (JobState.WAITING, 0, {})
        assert batch.finished < episodes
        lifecycle.fail(
            lifecycle.claim(CONTINUATIONS, config.pk, worker="here:1"), Failure("crash", "It was only asked for.")
        )
        work_on(batch)
    assert (batch.state, batch.finished) == (JobState.DONE, episodes)
    assert Trajectory.objects.filter(rollout_batch=batch).count() == episodes


def test_what_stands_in_the_output_already_is_stored_once_after_a_resume():
    batch = work_on(a_batch(count=2, samples=1))
    ids = set(Trajectory.objects.filter(rollout_batch=batch).values_list("id", flat=True))
    RolloutBatch.objects.filter(pk=batch.pk).update(state=JobState.CANCELLED)
    lifecycle.resume(batch, by=factories.member(of=batch.workspace).user)
    work_on(batch)
    assert set(Trajectory.objects.filter(rollout_batch=batch).values_list("id", flat=True)) == ids
    assert (batch.state, batch.finished) == (JobState.DONE, 2)


def test_lines_that_a_dead_worker_left_unstored_are_stored_by_the_next():
    batch = work_on(a_batch(count=2, samples=1))
    output = RolloutJob(batch).folder.path / OUTPUT
    first_line = len(output.read_bytes().splitlines(keepends=True)[0])
    Trajectory.objects.filter(rollout_batch=batch, external_id__contains="#0").order_by("-id")[:1].get().delete()
    RolloutBatch.objects.filter(pk=batch.pk).update(
        state=JobState.WAITING, position=first_line, finished=1, succeeded=1
    )
    work_on(batch)
    assert Trajectory.objects.filter(rollout_batch=batch).count() == 2
    assert (batch.finished, batch.position) == (2, output.stat().st_size)


def test_what_the_database_took_before_it_went_away_is_not_mistaken_for_all_that_followed(monkeypatch):
    store, stored = rollout_batches.store, []

    def shaky(*args: Any, **more: Any) -> int:
        stored.append(store(*args, **more))
        if len(stored) == 1:  # committed, but the confirmation was lost; the trainer continues meanwhile
            raise OperationalError("server closed the connection unexpectedly")
        return stored[-1]

    monkeypatch.setattr(rollout_batches, "store", shaky)
    monkeypatch.setattr(supervisor, "close_old_connections", lambda: None)
    batch = work_on(a_batch(count=150, samples=2))
    assert (batch.state, batch.finished) == (JobState.DONE, 300)
    assert Trajectory.objects.filter(rollout_batch=batch).count() == 300


def test_an_episode_that_cannot_be_stored_keeps_no_other_out_and_is_told(monkeypatch):
    prepare, seen = rollout_batches.prepare_line, []

    def picky(batch: RolloutBatch, line: bytes) -> Any:
        seen.append(line)
        if len(seen) == 2:
            raise BadRow("Step 0 has no message.", "a message")
        return prepare(batch, line)

    monkeypatch.setattr(rollout_batches, "prepare_line", picky)
    batch = work_on(a_batch(count=4, samples=1))
    assert (batch.state, batch.finished, batch.failure["category"]) == (JobState.FAILED, 3, "data")
    assert batch.failure["message"] == "1 episode could not be stored. The first one: BadRow: Step 0 has no message."
    lifecycle.resume(batch, by=factories.member(of=batch.workspace).user)
    work_on(batch)
    assert (batch.state, batch.finished, batch.failure) == (JobState.DONE, 3, {})


@pytest.mark.parametrize("kind", Policy.SILENT)
def test_what_only_scores_cannot_act(kind: str):
    policy = factories.policy(kind=kind)
    with pytest.raises(CannotAct, match="choose a language model"):
        start_rollouts(workspace=policy.workspace, policy=policy, environment="qa", tasks={"count": 1}, by=None)


class _Growing(io.RawIOBase):
    """A file that grows while it's read: each read returns a piece, or the current end of the file."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._pieces.pop(0) if self._pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


def test_the_rest_of_a_line_that_is_being_written_is_no_line():
    output = io.BufferedReader(_Growing(b"one\ntwo\nth", b"", b"ree\nfour\n"))
    assert complete_lines(output) == [b"one\n", b"two\n"]


def test_two_batches_of_the_same_episodes_are_different_trajectories():
    first = work_on(a_batch(count=2, samples=1))
    second = start_rollouts(
        workspace=first.workspace, policy=first.policy, environment="office", tasks=first.config["tasks"], by=None
    )
    work_on(second)
    assert Trajectory.objects.filter(rollout_batch=second).count() == 2


def test_a_cancelled_batch_is_left_alone_by_the_worker_that_had_it():
    batch = a_batch(count=2, samples=1)
    taken = lifecycle.claim(ROLLOUTS, batch.pk, worker="here:1")
    assert taken is not None
    lifecycle.cancel(batch, by=factories.member(of=batch.workspace).user)
    supervise(RolloutJob(taken))
    batch.refresh_from_db()
    assert batch.state == JobState.CANCELLED
    assert not Trajectory.objects.filter(rollout_batch=batch).exists()


def test_a_script_that_does_not_exist_fails_with_the_trainers_words():
    policy = factories.policy(location="genius")
    batch = start_rollouts(workspace=policy.workspace, policy=policy, environment="office", tasks={"count": 1}, by=None)
    work_on(batch)
    assert batch.state == JobState.FAILED
    assert batch.failure["category"] == "config"
    assert "genius" in batch.error
    assert batch.failure["command"].endswith(f"-m trainer {RolloutJob(batch).folder.config}")


def test_the_run_folder_says_what_was_done():
    batch = work_on(a_batch(count=1, samples=1))
    config = json.loads(RolloutJob(batch).folder.config.read_text())
    assert config["kind"] == "rollout"
    assert config["tasks"] | {"levels": []} == {
        "environment": "office", "file": None, "levels": [], "split": "held_out", "count": 1, "seed": 4,
    }  # fmt: skip


def test_a_served_model_may_be_spoken_to_in_plain_text():
    home = factories.workspace()
    endpoint = Endpoint.objects.create(workspace=home, base_url="http://127.0.0.1:8000/v1")
    policy = factories.policy(of=home, kind=Policy.Kind.ENDPOINT, location="m", endpoint=endpoint)
    for tool_calls in ("native", "react"):
        batch = start_rollouts(
            workspace=policy.workspace,
            policy=policy,
            environment="qa",
            tasks={"count": 1},
            by=None,
            tool_calls=tool_calls,
        )
        config = rollout_config(batch, RolloutJob(batch).folder.path)
        assert isinstance(config, RolloutConfig)
        assert isinstance(config.policy, ServerPolicy)
        assert config.policy.tool_calls == tool_calls
