"""Runs on the running product, with a real Celery worker and child process. Each way to die is really tried."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.utils.timezone import now

from apps.datasets.models import Version
from apps.jobs import lifecycle
from apps.training.folders import folder_of
from apps.training.launch import RUNS, TASK
from apps.training.models import Run
from tests import factories
from tests.live import LiveStack
from tests.workers.frozen_versions import SMALLEST, freeze, office_pairs
from workers.app import app

pytestmark = pytest.mark.stack
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    return office_pairs(tmp_path_factory.mktemp("pairs"), 12)


def queued(pairs: list[dict], *, steps: int, checkpoints_every: int = 5) -> Run:
    workspace = factories.workspace()
    run = Run.objects.create(
        workspace=workspace,
        name="sft",
        algorithm=Run.Algorithm.SFT,
        version=freeze({"train": pairs[:8], "validation": pairs[8:]}, of=workspace),
        config={
            "model": {"scratch": SMALLEST},
            "optimizer": {"batch_size": 4, "max_steps": steps, "learning_rate": 0.002},
            "checkpoints": {"every": checkpoints_every},
            "evaluate_every": 1000,
        },
    )
    lifecycle.queue(run)
    return run


def wait(run: Run, condition: Callable[[Run], bool]) -> Run:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        run.refresh_from_db()
        if condition(run):
            return run
        assert time.monotonic() < deadline, f"{run.state} at step {run.step}: {run.failure}"
        time.sleep(0.2)


def has_checkpoint(run: Run) -> bool:
    return run.state == Run.State.RUNNING and (run.checkpoint_step or 0) >= 5


def is_over(run: Run) -> bool:
    return not run.is_active


def test_a_run_that_is_delivered_twice_runs_once_and_ends_with_its_lineage(live_stack: LiveStack, pairs: list[dict]):
    run = queued(pairs, steps=6)
    app.send_task(TASK, args=[str(run.pk)])
    wait(run, is_over)
    assert (run.state, run.attempt, run.failure) == ("finished", 1, {})
    assert run.events.filter(kind="taken").count() == 1
    assert run.result is not None
    assert run.result.made_by.version == run.version
    assert isinstance(run.version, Version)


def test_a_cancelled_run_saves_a_checkpoint_and_resumes_from_it(live_stack: LiveStack, pairs: list[dict]):
    person = factories.member().user
    run = wait(queued(pairs, steps=100_000), has_checkpoint)
    lifecycle.cancel(run, by=person)
    wait(run, is_over)
    assert run.state == Run.State.CANCELLED
    assert run.checkpoint_step == run.step
    stopped_at = run.step
    lifecycle.resume(run, by=person)
    wait(run, lambda run: run.state == Run.State.RUNNING and run.step > stopped_at)
    assert (run.attempt, run.running_from) == (2, stopped_at)
    lifecycle.cancel(run, by=person)
    wait(run, is_over)


def test_a_killed_child_is_started_again_from_its_checkpoint_by_its_worker(live_stack: LiveStack, pairs: list[dict]):
    run = wait(queued(pairs, steps=100_000), has_checkpoint)
    assert run.process_id is not None
    os.kill(run.process_id, signal.SIGKILL)
    wait(run, lambda run: run.attempt == 2)
    wait(run, lambda run: run.state == Run.State.RUNNING)
    assert run.running_from >= 5
    assert "killed" in run.events.get(kind="lost").text
    assert f"continues from step {run.running_from}" in run.events.get(kind="lost").text
    wait(run, lambda run: (run.checkpoint_step or 0) > run.running_from)
    assert (run.losses, run.loss) == (0, "")
    lifecycle.cancel(run, by=factories.member().user)
    wait(run, is_over)
    assert f"It continues from step {run.running_from}." in folder_of(run.pk).log.read_text()


@pytest.mark.long
def test_a_child_that_is_killed_again_and_again_fails_with_what_was_tried_and_can_be_resumed(
    live_stack: LiveStack, pairs: list[dict]
):
    run = queued(pairs, steps=100_000, checkpoints_every=100_000)
    for attempt in (1, 2, 3):
        wait(run, lambda run, attempt=attempt: run.state == Run.State.RUNNING and run.attempt == attempt)
        assert run.process_id is not None
        os.kill(run.process_id, signal.SIGKILL)
    wait(run, is_over)
    assert run.state == Run.State.FAILED
    assert "started 3 times in a row and got no further than the beginning" in run.failure["message"]
    assert "batch size" in run.failure["advice"]
    assert run.failure["command"].endswith(f"{run.pk}/run.json")
    lifecycle.resume(run, by=factories.member().user)
    wait(run, lambda run: run.state == Run.State.RUNNING and run.attempt == 4)
    lifecycle.cancel(run, by=factories.member().user)
    wait(run, is_over)


def test_a_killed_worker_takes_its_child_along_and_another_goes_on_from_the_checkpoint(
    live_stack: LiveStack, pairs: list[dict]
):
    run = wait(queued(pairs, steps=100_000), has_checkpoint)
    assert run.process_id is not None
    child, first_worker = psutil.Process(run.process_id), run.worker
    worker = live_stack.programs["worker-train"].process
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    child.wait(20)
    assert Path(f"/proc/{run.process_id}/stat").exists() is False
    live_stack.restart("worker-train")
    Run.objects.filter(pk=run.pk).update(leased_until=now() - timedelta(seconds=1))  # as after a minute of silence
    lifecycle.recover(RUNS)
    wait(run, lambda run: run.state == Run.State.RUNNING and run.attempt == 2)
    assert run.running_from >= 5
    assert run.worker != first_worker
    assert run.events.filter(kind="lost").count() == 1
    lifecycle.cancel(run, by=factories.member().user)
    wait(run, is_over)
