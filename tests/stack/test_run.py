"""`manage.py run` as seen at the terminal, with separate folders and ports."""

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
START_SECONDS = 180  # several may start at once on a slow machine


class RunningStack:
    """A supervisor under test, and its output. `launcher` is a command to start it with, as make does."""

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
    def printed(self) -> str:
        return self.output.read_text()

    @property
    def address(self) -> str:
        match = re.search(r"Retrace answers at (\S+)", self.printed)
        assert match, f"no address in:\n{self.printed}"
        return match[1]

    def wait_until_it_says(self, text: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while text not in self.printed:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.printed}"
            assert time.monotonic() < deadline, f"does not say {text!r}:\n{self.printed}"
            time.sleep(0.05)

    def family(self) -> list[psutil.Process]:
        """All descendants of the supervisor."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def process_with(self, words: str) -> psutil.Process:
        """The first running descendant of the supervisor whose command contains these words."""
        return next(process for process in self.family() if words in "".join(alive([process])))

    def end(self) -> None:
        """Clean up after a test, whatever happened."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def supervisors(folder: Path, outputs: Path) -> Iterator[Callable[..., RunningStack]]:
    """Starts supervisors in one folder, with their outputs in another, and ends them afterwards."""
    started: list[RunningStack] = []

    def start(*arguments: str, launcher: tuple[str, ...] = ()) -> RunningStack:
        output = outputs / f"{len(started)}.out"
        started.append(RunningStack(folder / "var", *arguments, output=output, launcher=launcher))
        return started[-1]

    try:
        yield start
    finally:
        for stack in started:
            stack.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningStack]]:
    with supervisors(tmp_path, tmp_path) as start:
        yield start


def healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.timeout(600)
def test_it_answers_heals_and_ends_by_ctrl_c(start: Callable[..., RunningStack]) -> None:
    """A single stack for the whole test, since starting one takes most of the time."""
    stack = start("--port", "0")
    stack.wait_until_it_says("Retrace answers at")
    assert healthy(stack.address)
    names = " ".join(alive(stack.family()))
    for part in (
        "postgres",
        "valkey-server",
        "uvicorn",
        "--queues default",
        "--queues generate",
        "--queues train",
        "beat",
    ):
        assert part in names

    # A second one in the same folder is refused, with the address.
    second = RunningStack(stack.var, "--port", "0", output=stack.var.with_suffix(".second"))
    assert second.process.wait(60) == 1
    assert f"already runs on {stack.var} at {stack.address} (process {stack.process.pid})" in second.printed
    assert healthy(stack.address)

    # The database crashes, and comes back.
    stack.process_with(str(paths.for_var(stack.var).postgres_data)).kill()
    stack.wait_until_it_says("Starting postgres again (restart 1)")
    deadline = time.monotonic() + 60
    while not healthy(stack.address):
        assert time.monotonic() < deadline, stack.printed
        time.sleep(0.2)

    # The log of a part that ends is named, and the part is restarted.
    worker = stack.process_with("train@%h")
    pool = worker.children()
    assert pool
    worker.kill()
    stack.wait_until_it_says("Starting worker-train again (restart 1)")
    assert "worker-train was ended by SIGKILL. The end of" in stack.printed
    wait_until_gone(pool, 5)

    # A signal right after a restart is obeyed as well.
    family = stack.family()
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(60) == 0
    assert alive(family) == []
    assert "Stopped in" in stack.printed


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_it_leaves_nothing_and_starts_again(start: Callable[..., RunningStack]) -> None:
    stack = start("--port", "0")
    stack.wait_until_it_says("Retrace answers at")
    family = stack.family()
    assert len(family) > 10
    stack.process.kill()
    stack.process.wait()

    # Started immediately, it waits for the old database to exit. This time make starts it, and is killed.
    make = (sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])")
    again = start("--port", "0", "--with-parent", launcher=make)
    again.wait_until_it_says("Retrace answers at")
    wait_until_gone(family, 20)
    family = again.family()
    again.process.kill()
    again.process.wait()
    wait_until_gone(family, 30)
    assert "Stopped in" in again.printed

    # Ctrl-C also works during startup.
    third = start("--port", "0")
    third.wait_until_it_says("Web and workers")
    time.sleep(0.3)
    family = third.family()
    third.process.send_signal(signal.SIGINT)
    assert third.process.wait(60) == 0
    assert alive(family) == []


def test_a_taken_port_is_named_when_it_was_asked_for(start: Callable[..., RunningStack]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        stack = start("--port", str(port))
        assert stack.process.wait(60) == 1
    assert f"Port {port} on 127.0.0.1 is in use by another program" in stack.printed
    assert "Traceback" not in stack.printed
