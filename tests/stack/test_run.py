"""`manage.py run` as the person at the terminal sees it, on folders and ports of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from apps.common.stack import paths
from tests.processes import alive, wait_until_gone

pytestmark = pytest.mark.stack
ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 180  # several at once on a busy machine


class RunningStack:
    """A supervisor under test, and what it prints. `launcher` is a command to start it with, as make is."""

    def __init__(self, var: Path, *arguments: str, output: Path, launcher: tuple[str, ...] = ()) -> None:
        services = {"DATABASE_URL", "VALKEY_URL", "RETRACE_ENV"}
        env = {name: value for name, value in os.environ.items() if name not in services}
        self.var = var
        self.output = output
        command = [*launcher, sys.executable, "manage.py", "run", "--no-demo", "--web", "1", *arguments]
        with output.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env={**env, "RETRACE_VAR": str(var)}, stdout=log, stderr=log
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def address(self) -> str:
        match = re.search(r"Retrace answers at (\S+)", self.said)
        assert match, f"no address in:\n{self.said}"
        return match[1]

    def wait_until_it_says(self, text: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while text not in self.said:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.said}"
            assert time.monotonic() < deadline, f"does not say {text!r}:\n{self.said}"
            time.sleep(0.05)

    def family(self) -> list[psutil.Process]:
        """Everything below the supervisor."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def process_with(self, words: str) -> psutil.Process:
        """The first process below the supervisor that still runs and has these words in its command."""
        return next(process for process in self.family() if words in "".join(alive([process])))

    def end(self) -> None:
        """Clean up after a test, whatever it did."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def supervisors(folder: Path) -> Iterator[Callable[..., RunningStack]]:
    """Starts supervisors on one folder, and ends them afterwards."""
    started: list[RunningStack] = []

    def start(*arguments: str, launcher: tuple[str, ...] = ()) -> RunningStack:
        output = folder / f"{len(started)}.out"
        started.append(RunningStack(folder / "var", *arguments, output=output, launcher=launcher))
        return started[-1]

    try:
        yield start
    finally:
        for stack in started:
            stack.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningStack]]:
    with supervisors(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack for the tests that leave it running."""
    with supervisors(tmp_path_factory.mktemp("running")) as start:
        stack = start("--port", "0")
        stack.wait_until_it_says("Retrace answers at")
        yield stack


def test_it_answers_where_it_says_and_ctrl_c_ends_all_of_it_with_status_0(start: Callable[..., RunningStack]) -> None:
    stack = start("--port", "0")
    stack.wait_until_it_says("Retrace answers at")
    with urllib.request.urlopen(f"{stack.address}/healthz") as answer:
        assert answer.status == 200
    family = stack.family()
    names = " ".join(alive(family))
    for part in ("postgres", "valkey-server", "uvicorn", "--queues default", "--queues gpu", "beat"):
        assert part in names
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(60) == 0
    assert alive(family) == []
    assert "Stopped in" in stack.said


def test_ctrl_c_while_it_starts_ends_it_too(start: Callable[..., RunningStack]) -> None:
    stack = start("--port", "0")
    stack.wait_until_it_says("Web and workers")
    time.sleep(0.3)
    family = stack.family()
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(60) == 0
    assert alive(family) == []


def test_a_killed_supervisor_leaves_nothing_and_starts_again(start: Callable[..., RunningStack]) -> None:
    stack = start("--port", "0")
    stack.wait_until_it_says("Retrace answers at")
    family = stack.family()
    assert len(family) > 10
    stack.process.kill()
    stack.process.wait()
    again = start("--port", "0")  # at once: it waits for the old database to close
    again.wait_until_it_says("Retrace answers at")
    wait_until_gone(family, 20)


def test_it_ends_when_the_make_that_started_it_is_killed(start: Callable[..., RunningStack]) -> None:
    make = (sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])")
    stack = start("--port", "0", "--with-parent", launcher=make)
    stack.wait_until_it_says("Retrace answers at")
    family = stack.family()
    stack.process.kill()
    stack.process.wait()
    wait_until_gone(family, 30)
    assert "Stopped in" in stack.said


def test_a_second_one_in_the_same_folder_is_refused_with_the_address(running: RunningStack) -> None:
    second = RunningStack(running.var, "--port", "0", output=running.var.with_suffix(".second"))
    assert second.process.wait(60) == 1
    assert f"already runs on {running.var} at {running.address} (process {running.process.pid})" in second.said
    with urllib.request.urlopen(f"{running.address}/healthz") as answer:
        assert answer.status == 200


def test_a_taken_port_is_named_when_it_was_asked_for(start: Callable[..., RunningStack]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        stack = start("--port", str(port))
        assert stack.process.wait(60) == 1
    assert f"Port {port} on 127.0.0.1 is in use by another program" in stack.said
    assert "Traceback" not in stack.said


def test_a_part_that_ends_is_named_with_its_log_and_started_again(running: RunningStack) -> None:
    worker = running.process_with("gpu@%h")
    pool = worker.children()
    worker.kill()
    running.wait_until_it_says("Starting worker-gpu again (restart 1)")
    assert "worker-gpu was ended by SIGKILL. The end of" in running.said
    assert pool
    wait_until_gone(pool, 5)


def test_the_database_comes_back_after_it_crashed(running: RunningStack) -> None:
    data = str(paths.for_var(running.var).postgres_data)
    running.process_with(data).kill()
    running.wait_until_it_says("Starting postgres again (restart 1)")
    deadline = time.monotonic() + 60
    while not healthy(running.address):
        assert time.monotonic() < deadline, running.said
        time.sleep(0.2)


def healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_signal_just_after_a_restart_is_obeyed(start: Callable[..., RunningStack]) -> None:
    stack = start("--port", "0")
    stack.wait_until_it_says("Retrace answers at")
    stack.process_with("gpu@%h").kill()
    stack.wait_until_it_says("Starting worker-gpu again")
    family = stack.family()
    stack.process.terminate()
    assert stack.process.wait(60) == 0
    assert alive(family) == []
