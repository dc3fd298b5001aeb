"""The whole stack on a separate disk that fills up: nothing exits, every part reports it, and all continue once there is space again."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.common.stack import paths
from tests.processes import alive
from tests.stack.test_run import RunningStack, supervisors

pytestmark = [pytest.mark.stack, pytest.mark.long]
DISK = "640m"
PARTS = ("valkey", "postgres", "web-1", "worker-default", "worker-remote", "worker-generate", "worker-train", "clock")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"needs a disk of its own, and may not mount one here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def stack(small_disk: Path, tmp_path: Path) -> Iterator[RunningStack]:
    with supervisors(small_disk, tmp_path) as start:
        stack = start("--port", "0")
        stack.wait_until_it_says("Retrace answers at")
        yield stack


def health(stack: RunningStack) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{stack.address}/healthz", timeout=20) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as refusal:
        return dict(json.load(refusal))


def wait_for(stack: RunningStack, what: Callable[[dict[str, Any]], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what(state := health(stack)):
        assert stack.process.poll() is None, stack.printed
        assert time.monotonic() < deadline, f"{state}\n{stack.printed}"
        time.sleep(0.5)


def fill(disk: Path) -> Path:
    """Fill the disk to the last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    return ballast


def test_a_full_disk_ends_nothing_and_all_goes_on_when_there_is_space(stack: RunningStack, small_disk: Path) -> None:
    wait_for(stack, lambda state: state["workers"] == "ok", 60)
    before = {process.pid for process in stack.family()}
    parts = ("--queues default", "--queues generate", "--queues train", "beat")
    workers = [stack.process_with(part) for part in parts]

    ballast = fill(small_disk)
    wait_for(stack, lambda state: (state["disk"], state["valkey"], state["database"]) == ("full", "away", "ok"), 60)
    time.sleep(15)  # periodic tasks query the database every few seconds, and the workers get errors
    assert len(alive(workers)) == 4, stack.printed
    assert "again" not in stack.printed

    # Parts that restart meanwhile can't start, and are retried until they can.
    for words in (str(paths.for_var(stack.var).postgres_data), "valkey-server"):
        stack.process_with(words).kill()
    stack.wait_until_it_says("postgres does not start")
    wait_for(stack, lambda state: state["database"] == "away", 60)
    with urllib.request.urlopen(f"{stack.address}/healthz/live", timeout=10) as answer:
        assert answer.status == 200
    stack.wait_until_it_says("(restart 4)")
    assert len(alive(workers)) == 4, stack.printed

    ballast.unlink()
    wait_for(stack, lambda state: state["status"] == "ready", 120)
    os.kill(workers[0].pid, 0)
    assert {process.pid for process in stack.family()} & before  # some processes were never replaced
    wait_for(stack, lambda state: state["workers"] == "ok", 120)
