"""Forked processes start with everything loaded, and without anything of each other's."""

import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import wait_until_gone
from tests.trainer.runs import ROOT
from trainer import fork_server
from trainer.fork_server import ForkRequest
from workers.bridge.fork_server import ForkedChild, ForkFailed, Server

ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that loads nothing."""
    server = Server(ROOT, ENVIRONMENT, load=())
    yield server
    server.kill()


def fork(server: Server, log: Path, *arguments: str, inherit: int | None = None, **environment: str) -> ForkedChild:
    request = ForkRequest(
        "tests.workers.fork_target", list(arguments), str(ROOT), {**ENVIRONMENT, **environment}, niceness=3
    )
    with log.open("ab") as output:
        return server.fork(request, output=output.fileno(), pass_fds=[] if inherit is None else [inherit])


def printed(log: Path) -> Any:
    deadline = time.monotonic() + 30
    while not log.exists() or not log.read_text().endswith("\n"):
        assert time.monotonic() < deadline, "it says nothing"
        time.sleep(0.01)
    return json.loads(log.read_text())


def test_each_has_its_own_arguments_keys_group_and_status(server: Server, tmp_path: Path):
    first = fork(server, tmp_path / "1", "a", ONE_API_KEY="secret")
    second = fork(server, tmp_path / "2", "b")
    family, niceness = {"parent": server.process.pid}, os.nice(0) + 3
    assert [first.wait(30), second.wait(30)] == [7, 7]
    assert printed(tmp_path / "1") == [
        ["a"],
        {"ONE_API_KEY": "secret"},
        str(ROOT),
        niceness,
        {**family, "group": first.pid},
    ]
    assert printed(tmp_path / "2") == [["b"], {}, str(ROOT), niceness, {**family, "group": second.pid}]


def test_a_killed_one_says_its_signal_and_the_server_forks_the_next(server: Server, tmp_path: Path):
    child = fork(server, tmp_path / "1", "sleep")
    printed(tmp_path / "1")
    assert child.poll() is None
    os.killpg(child.pid, signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL
    child.send_signal(signal.SIGTERM)  # reaches no process
    assert fork(server, tmp_path / "2").wait(30) == 7


def test_what_it_inherits_is_locked_for_as_long_as_it_lives(server: Server, tmp_path: Path):
    with (tmp_path / "lock").open("w") as lock, (tmp_path / "lock").open("w") as another:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = fork(server, tmp_path / "1", "sleep", inherit=lock.fileno())
        later = fork(server, tmp_path / "2", "sleep")  # inherits nothing from the first
        lock.close()
        printed(tmp_path / "1")
        with pytest.raises(BlockingIOError):
            fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(30)
        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert later.poll() is None


def test_a_killed_server_takes_its_processes_along_and_says_so(server: Server, tmp_path: Path):
    child = fork(server, tmp_path / "1", "sleep")
    process = psutil.Process(child.pid)
    server.process.kill()
    assert child.wait(30) == -signal.SIGKILL
    wait_until_gone([process], 10)
    with pytest.raises(ForkFailed):
        fork(server, tmp_path / "2")


def test_a_server_without_work_ends_by_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fork_server, "IDLE_SECONDS", 0.01)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert list(fork_server.ForkServer(theirs).serve()) == []
