"""How the worker handles a child that hangs, refuses to stop, or no longer belongs to it. The child here only sleeps or resists;
the real one is tested in test_training_job.py and test_live_runs.py.
"""

import errno
import fcntl
import json
import os
import sys
import threading
import time

import psutil
import pytest
from django.db import OperationalError

from apps.jobs import lifecycle
from apps.training import progress
from apps.training.folders import RunFolder, folder_of
from apps.training.launch import RUNS
from apps.training.models import Run
from contract.endpoint_keys import permissions
from tests import factories
from tests.processes import alive
from workers.bridge import supervisor
from workers.bridge.process import TrainerProcess
from workers.bridge.supervisor import run_job, supervise
from workers.bridge.training_job import TrainingJob

pytestmark = pytest.mark.django_db

SLEEP = "import time; print('sleeping'); time.sleep(600)"
RESIST = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('sleeping'); time.sleep(600)"


@pytest.fixture
def child(settings, monkeypatch: pytest.MonkeyPatch):
    """Makes every run's child process execute these lines of Python."""
    monkeypatch.setattr(TrainingJob, "prepare", lambda job: job.folder.path.mkdir(parents=True, exist_ok=True))

    def become(code: str) -> None:
        settings.TRAINER_COMMAND = [sys.executable, "-c", code]

    return become


def claimed() -> Run:
    run = lifecycle.claim(RUNS, factories.run().pk, worker="here:1")
    assert run is not None
    return run


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


def test_a_child_that_says_nothing_is_killed_and_its_run_goes_to_another_worker(child, monkeypatch):
    child(SLEEP)
    monkeypatch.setattr(supervisor, "SILENCE_SECONDS", 1.0)
    run = claimed()
    before = children()
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert (run.state, run.losses) == ("queued", 1)
    assert "gave no sign of life" in run.events.get(kind="lost").text
    assert children() == before


def test_a_child_that_does_not_stop_when_asked_is_killed_after_a_while(child, monkeypatch):
    child(RESIST)
    monkeypatch.setattr(supervisor, "STOP_TIMEOUT_SECONDS", 1.0)
    run = claimed()
    Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLING)
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED
    assert "did not stop in time" in run.events.get(kind="cancelled").text


def test_a_worker_that_lost_its_run_kills_the_child_and_writes_nothing(child, monkeypatch):
    child(SLEEP)
    run = claimed()
    monkeypatch.setattr(TrainingJob, "record_start", lambda job, process_id: _take_away(run))
    before = children()
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert (run.state, run.attempt, run.worker) == ("running", 2, "there:2")
    assert not run.events.filter(kind__in=["failed", "cancelled", "lost"]).exists()
    assert children() == before


def _take_away(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, attempt=2, worker="there:2")


def test_a_worker_that_goes_away_hands_its_run_back_at_once(child, monkeypatch):
    child(SLEEP)
    monkeypatch.setattr(supervisor, "is_shutting_down", lambda: True)
    run = claimed()
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert (run.state, run.losses, run.failure) == ("queued", 0, {})
    assert "shutting down" in run.events.get(kind="requeued").text


def test_a_training_run_gives_way_on_the_processor(child):
    child("import os, pathlib; pathlib.Path('/dev/stdout').write_text(f'nice {os.nice(0)}')")
    run = claimed()
    supervise(TrainingJob(run))
    assert folder_of(run.pk).log.read_text() == f"nice {min(19, os.nice(0) + 10)}"


def test_a_child_that_is_cancelled_before_it_listens_was_not_killed_from_outside(child):
    child(SLEEP)
    run = claimed()
    Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLING)
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert (run.state, run.failure) == ("cancelled", {})
    assert run.events.get(kind="cancelled").text == "It stopped before it had begun."


def test_no_second_child_starts_while_one_holds_the_folder(child, settings):
    child(SLEEP)
    settings.WORKER_LEASE_SECONDS = 1
    run = claimed()
    folder = folder_of(run.pk)
    folder.path.mkdir(parents=True)
    holder = os.open(folder.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        supervise(TrainingJob(run))
    finally:
        os.close(holder)
    run.refresh_from_db()
    assert (run.state, run.losses, run.process_id) == ("queued", 1, None)
    assert "sleeping" not in folder.log.read_text()


def test_the_child_holds_the_folder_as_long_as_it_lives(child):
    child(SLEEP)
    run = claimed()
    folder = folder_of(run.pk)
    results: list[bool] = []

    def look() -> None:
        while not folder.log.exists() or "sleeping" not in folder.log.read_text():
            time.sleep(0.05)
        other = os.open(folder.lock, os.O_RDWR)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            results.append(True)
        except BlockingIOError:
            results.append(False)
        os.close(other)
        [sleeper] = [child for child in psutil.Process().children() if "sleeping" in "".join(alive([child]))]
        sleeper.kill()

    looker = threading.Thread(target=look)
    looker.start()
    supervise(TrainingJob(run))
    looker.join()
    run.refresh_from_db()
    assert results == [False]
    assert "killed from outside (SIGKILL)" in run.loss


def test_a_child_that_is_killed_alone_is_started_again_and_given_up_after_three_times_without_progress(child):
    child("import os, signal; print('killed'); os.kill(os.getpid(), signal.SIGKILL)")
    run = factories.run()
    run_job(RUNS, str(run.pk), TrainingJob)
    run.refresh_from_db()
    assert (run.state, run.attempt, run.losses) == ("failed", 3, 3)
    assert run.failure["category"] in ("killed", "out_of_memory")  # the kernel may have killed something else meanwhile
    assert "started 3 times in a row and got no further than the beginning" in run.failure["message"]
    assert "batch size" in run.failure["advice"]
    assert [event.kind for event in run.events.order_by("pk")] == ["taken", "lost", "taken", "lost", "taken", "failed"]
    log = folder_of(run.pk).log.read_text()
    assert log.count("It continues from the beginning.") == 2
    assert log.count("It isn't retried automatically.") == 1


def test_a_killed_child_that_gets_on_between_its_deaths_is_started_again_each_time(child, monkeypatch):
    child("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    run = factories.run()

    def checkpoint(job: TrainingJob) -> None:
        job.folder.path.mkdir(parents=True, exist_ok=True)
        if (attempt := job.job.attempt) > 4:
            raise ZeroDivisionError("enough")
        progress.apply(run=job.job, update=progress.RunUpdate(seq=attempt, offset=0, checkpoint_step=10 * attempt))

    monkeypatch.setattr(TrainingJob, "prepare", checkpoint)
    run_job(RUNS, str(run.pk), TrainingJob)
    run.refresh_from_db()
    assert (run.attempt, run.losses, run.failure["message"]) == (5, 1, "The worker failed: enough")
    assert "continues from step 40" in run.events.filter(kind="lost").latest("pk").text


def test_a_worker_that_goes_away_leaves_a_killed_childs_job_to_others(child, monkeypatch):
    child("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(supervisor, "is_shutting_down", lambda: True)
    run = factories.run()
    run_job(RUNS, str(run.pk), TrainingJob)
    run.refresh_from_db()
    assert (run.state, run.attempt, run.losses) == ("queued", 1, 1)


def test_a_disk_without_space_is_a_failure_with_advice(child, monkeypatch):
    def full(job: TrainingJob) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    child(SLEEP)
    monkeypatch.setattr(TrainingJob, "prepare", full)
    run = claimed()
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert run.failure["category"] == "disk_full"
    assert "Free some space" in run.failure["advice"]


def test_a_disk_that_was_full_when_the_child_ended_is_named_though_the_database_had_no_space_either(child, monkeypatch):
    child("raise SystemExit(1)")  # its log is empty, since there was no space for it
    free, handle_events, wait, refusals, ended = [0], TrainingJob.handle_events, TrainerProcess.wait, [1, 2, 3], []

    def noted(process: TrainerProcess, seconds: float) -> int | None:
        if (status := wait(process, seconds)) is not None:
            ended.append(status)
        return status

    def database_is_full_too(job: TrainingJob, *events: object) -> None:
        if not refusals:
            return handle_events(job, *events)
        if ended:
            refusals.pop()
            free[0] = 0 if refusals else 10**9  # space is freed, and the database responds again
        raise OperationalError("could not extend file: No space left on device")

    monkeypatch.setattr(RunFolder, "free_bytes", lambda _: free[0])
    monkeypatch.setattr(TrainerProcess, "wait", noted)
    monkeypatch.setattr(TrainingJob, "handle_events", database_is_full_too)
    monkeypatch.setattr(supervisor._ChildMonitor, "catch_up", lambda _: None)
    monkeypatch.setattr(supervisor, "close_old_connections", lambda: None)
    run = claimed()
    folder_of(run.pk).path.mkdir(parents=True)
    folder_of(run.pk).events.write_text(json.dumps({"seq": 1, "at": 0.0, "kind": "heartbeat"}) + "\n")
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert run.failure["category"] == "disk_full"


def test_a_folder_that_cannot_be_made_is_a_failure_at_once(child, settings, tmp_path):
    child(SLEEP)
    settings.RUNS_DIR = tmp_path / "file"
    settings.RUNS_DIR.write_text("")
    run = claimed()
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert (run.state, run.failure["category"]) == ("failed", "crash")
    assert "Not a directory" in run.failure["message"]


def test_an_end_that_cannot_be_stored_is_a_failure_at_once(child, monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("report")

    child(SLEEP)
    monkeypatch.setattr(lifecycle, "stop", broken)
    run = claimed()
    Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLING)
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert (run.state, run.failure["message"]) == ("failed", "The worker failed: 'report'")


def test_a_fault_of_the_worker_itself_is_not_blamed_on_the_settings(child, monkeypatch):
    def broken(job: TrainingJob) -> None:
        raise ZeroDivisionError("division by zero")

    child(SLEEP)
    monkeypatch.setattr(TrainingJob, "prepare", broken)
    run = claimed()
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert run.failure["category"] == "crash"
    assert "fault of the worker" in run.failure["advice"]
    assert "ZeroDivisionError" in run.failure["details"]


def test_a_database_that_is_away_for_a_moment_costs_nothing(child, monkeypatch):
    child("print('done'); raise SystemExit(3)")
    run = claimed()
    record_outcome, tries = TrainingJob.record_outcome, []

    def shaky(job: TrainingJob, outcome, *, released: bool) -> None:
        tries.append(outcome)
        if len(tries) < 3:
            raise OperationalError("the server closed the connection unexpectedly")
        record_outcome(job, outcome, released=released)

    monkeypatch.setattr(TrainingJob, "record_outcome", shaky)
    monkeypatch.setattr(supervisor, "close_old_connections", lambda: None)
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert len(tries) == 3
    assert run.failure["category"] == "data"


def test_a_database_that_is_away_while_a_job_is_prepared_fails_nothing(child, monkeypatch):
    def interrupted(job: TrainingJob) -> None:
        raise OperationalError("terminating connection due to administrator command")

    child(SLEEP)
    monkeypatch.setattr(TrainingJob, "prepare", interrupted)
    run = claimed()
    with pytest.raises(OperationalError):
        supervise(TrainingJob(run))
    Run.objects.filter(pk=run.pk).update(leased_until="2020-01-01T00:00Z")
    assert lifecycle.recover(RUNS) == [run]
    run.refresh_from_db()
    assert (run.state, run.losses) == ("queued", 1)


def test_a_database_that_is_away_while_a_job_asks_whether_to_yield_costs_nothing(child, monkeypatch):
    child("import time; time.sleep(0.6); raise SystemExit(3)")
    refusals = [OperationalError("deadlock detected")]

    def shaky(job: TrainingJob) -> bool:
        if refusals:
            raise refusals.pop()
        return False

    monkeypatch.setattr(TrainingJob, "should_yield", shaky)
    monkeypatch.setattr(supervisor, "close_old_connections", lambda: None)
    run = claimed()
    supervise(TrainingJob(run))
    run.refresh_from_db()
    assert refusals == []
    assert run.failure["category"] == "data"  # what the child's exit status says


@pytest.mark.django_db(transaction=True)
def test_a_job_that_takes_long_to_prepare_keeps_its_lease(child, monkeypatch, settings):
    child("raise SystemExit(3)")
    settings.WORKER_LEASE_SECONDS = 1
    orphaned: list[bool] = []

    def slow(job: TrainingJob) -> None:
        time.sleep(1.5)
        orphaned.append(Run.objects.orphaned().exists())

    monkeypatch.setattr(TrainingJob, "prepare", slow)
    supervise(TrainingJob(claimed()))
    assert orphaned == [False]


def test_the_child_sees_the_keys_that_its_run_names_and_no_other_secret(child, settings, monkeypatch):
    child("import os; print(*sorted(os.environ)); raise SystemExit(3)")
    settings.ENDPOINT_KEYS = permissions("JUDGE_KEY=http://judge")
    of_installation = {"SECRET_KEY", "LOCAL_MODELS_KEY", "EMAIL_HOST_PASSWORD"}
    of_trackers = {"WANDB_API_KEY", "MLFLOW_TRACKING_PASSWORD"}
    for secret in {"OPENAI_API_KEY", "VLLM_API_KEY", "JUDGE_KEY", *of_installation, *of_trackers}:
        monkeypatch.setenv(secret, "secret")
    monkeypatch.setenv("HF_TOKEN", "of gated models")
    run = claimed()
    folder = folder_of(run.pk)
    folder.path.mkdir(parents=True)
    folder.config.write_text('{"kind": "grpo", "rewards": {"terms": [{"api_key_variable": "VLLM_API_KEY"}]}}')
    supervise(TrainingJob(run))
    seen = set(folder.log.read_text().split())
    assert {"VLLM_API_KEY", "HF_TOKEN", "PATH"} <= seen
    assert not {"OPENAI_API_KEY", "JUDGE_KEY", "DATABASE_URL", *of_installation, *of_trackers} & seen
    run = claimed()
    folder = folder_of(run.pk)
    folder.path.mkdir(parents=True)
    folder.config.write_text('{"kind": "grpo", "tracker": "mlflow"}')
    supervise(TrainingJob(run))
    seen = set(folder.log.read_text().split())
    assert "MLFLOW_TRACKING_PASSWORD" in seen
    assert not {"VLLM_API_KEY", "WANDB_API_KEY"} & seen
