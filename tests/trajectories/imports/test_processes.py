"""The import in real processes: the command, killed and run again; a worker, killed and replaced; constant memory."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from django.conf import settings
from django.db import connection

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Role
from apps.common.stack.paths import StackPaths
from apps.jobs.models import JobState
from apps.trajectories.imports.import_job import WORTH_A_PROCESS
from apps.trajectories.models import ImportBatch, Original, Step, Trajectory
from tests import factories
from tests.live import LiveStack

ROOT = Path(__file__).resolve().parents[3]
STEPS = 8


def write_rows(path: Path, count: int) -> Path:
    """`count` different trajectories of eight steps of about 1 KB each; the middle one can't be read."""
    words = " ".join(f"w{n:x}" for n in range(170))
    with path.open("w") as file:
        for number in range(count):
            steps = [
                {
                    "context": [{"role": "user", "content": f"{number}.{step} {words}"}],
                    "message": {"role": "assistant", "content": f"answer {number} {step}"},
                    "reward": 0.0,
                }
                for step in range(STEPS)
            ]
            row = {"format": "retrace/1", "id": str(number), "task": {"key": f"k{number % 50}"}, "steps": steps}
            file.write(json.dumps(row if number != count // 2 else {**row, "task": None}) + "\n")
    return path


@pytest.fixture
def command(stack_paths: StackPaths, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `manage.py import_trajectories --json` on this test's database, with this test's storage."""
    started: list[subprocess.Popen[str]] = []
    environment = {
        **os.environ,
        "DATABASE_URL": stack_paths.database_url_for(connection.settings_dict["NAME"]),
        "RETRACE_VAR": str(tmp_path / "var"),
    }

    def start(*files: Path) -> subprocess.Popen[str]:
        arguments = [sys.executable, "manage.py", "import_trajectories", "--json", *map(str, files)]
        process = subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def moved() -> bool:
    return ImportBatch.objects.filter(position__gt=0, state=JobState.RUNNING).exists()


@pytest.mark.django_db(transaction=True)
def test_a_killed_command_run_again_loses_nothing_and_doubles_nothing(command, tmp_path):
    factories.workspace()
    path = write_rows(tmp_path / "runs.jsonl", 3000)
    first = command(path)
    wait_for(moved)
    first.send_signal(signal.SIGKILL)
    first.wait()
    stopped = ImportBatch.objects.get()
    assert 0 < stopped.position < 3000, "it was killed midway"
    assert Trajectory.objects.count() == stopped.trajectory_count
    assert Step.objects.count() == stopped.step_count == STEPS * stopped.trajectory_count

    second = command(path)
    out, _ = second.communicate(timeout=120)
    assert second.returncode == 0
    assert json.loads(out) == {
        "file": str(path),
        "format": "retrace",
        "trajectories": 2999,
        "tasks": 50,
        "steps": 2999 * STEPS,
        "duplicates": 0,
        "outcomes": 0,
        "rejected": 1,
        "warnings": 0,
    }
    assert (Trajectory.objects.count(), Step.objects.count(), Original.objects.count()) == (2999, 2999 * STEPS, 2999)
    assert sorted(map(int, Trajectory.objects.values_list("external_id", flat=True))) == [
        number for number in range(3000) if number != 1500
    ]
    batch = ImportBatch.objects.get()
    assert (batch.pk, batch.attempt, batch.rejected_rows.count()) == (stopped.pk, 2, 1)


@pytest.mark.django_db(transaction=True)
def test_the_command_says_of_each_file_what_came_of_it(command, tmp_path):
    factories.workspace()
    good, bad = write_rows(tmp_path / "runs.jsonl", 4), tmp_path / "notes.txt"
    bad.write_text("# Notes")
    process = command(good, bad, tmp_path / "absent.jsonl")
    out, _ = process.communicate(timeout=60)
    results = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 1
    assert [result.get("error", "")[:24] for result in results] == [
        "",
        "The file starts with '# ",
        "No such file or director",
    ]
    assert (results[0]["trajectories"], results[0]["rejected"]) == (3, 1)
    again, _ = command(good).communicate(timeout=60)
    assert json.loads(again) | {"file": ""} == {
        "file": "",
        "format": "retrace",
        "trajectories": 0,
        "tasks": 0,
        "steps": 0,
        "duplicates": 3,
        "outcomes": 0,
        "rejected": 1,
        "warnings": 0,
    }


def peak_of(process: subprocess.Popen[str]) -> int:
    """The peak memory in bytes of a process and its descendants, watched until it ends."""
    peak = 0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            peak = max(peak, sum(process_seen.memory_info().rss for process_seen in (watched, *watched.children())))
        time.sleep(0.02)
    return peak


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_file_three_times_as_long_takes_no_more_memory(command, tmp_path):
    factories.workspace()
    short, long = write_rows(tmp_path / "short.jsonl", 6000), write_rows(tmp_path / "long.jsonl", 18_000)
    assert short.stat().st_size > WORTH_A_PROCESS
    assert long.stat().st_size > 100 << 20
    peaks = []
    for path in (short, long):
        process = command(path)
        peaks.append(peak_of(process))
        assert process.wait() == 0
    assert peaks[1] < peaks[0] + (40 << 20), peaks
    assert Trajectory.objects.count() == 17_999  # the long file begins with the rows of the short one


def send(stack: LiveStack, path: Path, secret: str) -> dict:
    """POST a file as a stream, without a length, as `curl -T -` does."""

    def blocks() -> Iterator[bytes]:
        with path.open("rb") as file:
            while block := file.read(1 << 16):
                yield block

    request = urllib.request.Request(
        f"{stack.url}/api/v1/imports?filename={path.name}",
        data=blocks(),
        headers={"Authorization": f"Bearer {secret}", "Content-Type": "application/octet-stream"},
        method="POST",
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 202
        return json.load(answer)


@pytest.mark.browser
def test_a_killed_worker_is_replaced_and_the_import_goes_on(live_stack: LiveStack, tmp_path: Path) -> None:
    member = factories.member(Role.RESEARCHER)
    secret = issue_token(membership=member, name="test").secret
    path = write_rows(tmp_path / "runs.jsonl", 4000)
    response = send(live_stack, path, secret)
    assert (response["size"], response["state"]) == (path.stat().st_size, "waiting")
    wait_for(moved)
    live_stack.programs["worker-default"].kill()
    stopped = ImportBatch.objects.get()
    assert 0 < stopped.position < 4000, "it was killed midway"
    live_stack.restart("worker-default")
    ImportBatch.objects.update(leased_until="2020-01-01T00:00:00Z")  # as a minute later
    wait_for(lambda: ImportBatch.objects.get().state == JobState.DONE, 90)
    batch = ImportBatch.objects.get()
    assert (batch.trajectory_count, batch.step_count, batch.rejected_count) == (3999, 3999 * STEPS, 1)
    assert (Trajectory.objects.count(), Step.objects.count()) == (3999, 3999 * STEPS)


@pytest.mark.browser
def test_a_body_over_the_limit_is_refused_before_it_is_taken(live_stack: LiveStack) -> None:
    request = urllib.request.Request(
        f"{live_stack.url}/api/v1/imports",
        data=iter([b"x" * 100]),
        headers={
            "Content-Length": str(settings.IMPORT_MAX_BYTES + (2 << 20)),
            "Content-Type": "application/octet-stream",
        },
        method="POST",
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 413


@pytest.mark.browser
def test_an_upload_that_breaks_off_starts_no_import(live_stack: LiveStack) -> None:
    secret = issue_token(membership=factories.member(Role.RESEARCHER), name="test").secret
    where = urlsplit(live_stack.url)
    with socket.create_connection((where.hostname, where.port)) as client:
        head = f"POST /api/v1/imports HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {secret}\r\n"
        client.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode() + b'{"messages": [' * 100)
        time.sleep(0.5)
    time.sleep(1)
    assert not ImportBatch.objects.exists()
