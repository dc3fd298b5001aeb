"""The keeper of a vLLM server, with another program in vLLM's place: what starts, ends, and survives."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from trainer.serving import keeper

SERVER = """
import os, pathlib, signal, subprocess, sys, time
engine = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
pathlib.Path(sys.argv[1]).open("a").write(f"{os.getpid()} {engine.pid} {sys.argv[-1]}\\n")
time.sleep(600)
"""
"""A server whose engine is a process of its own that heeds no SIGTERM, as vLLM's. It notes both, and the name that it serves."""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def kept(tmp_path: Path, notes: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A keeper at work."""
    options = ["--pointer", str(tmp_path / "pointer.json"), "--default", "some/model"]
    process = subprocess.Popen(
        [sys.executable, keeper.__file__, *options, "--", sys.executable, "-c", SERVER, str(notes)]
    )
    yield process
    process.kill()
    process.wait()
    for server, engine, _ in started(notes):
        for pid in (server, engine):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def started(notes: Path) -> list[tuple[int, int, str]]:
    """The server, its engine, and the name that it serves, of each start."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [(int(server), int(engine), name) for server, engine, name in map(str.split, lines)]


def is_running(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_servers_engine_is_ended_before_the_next_one_starts(kept: "subprocess.Popen[bytes]", notes: Path):
    until(lambda: len(started(notes)) == 1)
    server, engine, name = started(notes)[0]
    assert name == "base"
    os.kill(server, signal.SIGKILL)
    until(lambda: len(started(notes)) == 2)
    until(lambda: not is_running(engine))
    assert is_running(started(notes)[1][1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_keeper_leaves_nothing_behind_however_often_it_is_told(
    kept: "subprocess.Popen[bytes]", notes: Path, number: signal.Signals
):
    until(lambda: len(started(notes)) == 1)
    server, engine, _ = started(notes)[0]
    kept.send_signal(number)
    kept.send_signal(number)
    assert kept.wait(60) == 0
    until(lambda: not is_running(server) and not is_running(engine))


def test_another_model_replaces_the_server_with_its_engine(
    kept: "subprocess.Popen[bytes]", notes: Path, tmp_path: Path
):
    until(lambda: len(started(notes)) == 1)
    (tmp_path / "pointer.json").write_text('{"model": "other/model", "served_name": "other"}')
    until(lambda: len(started(notes)) == 2)
    server, engine, _ = started(notes)[0]
    assert started(notes)[1][2] == "other"
    until(lambda: not is_running(server) and not is_running(engine))


def test_a_pointer_that_cannot_be_read_for_a_while_changes_nothing(
    kept: "subprocess.Popen[bytes]", notes: Path, tmp_path: Path
):
    pointer = tmp_path / "pointer.json"
    pointer.write_text('{"model": "other/model", "served_name": "other"}')
    until(lambda: bool(started(notes)) and started(notes)[-1][2] == "other")
    starts = len(started(notes))
    looped = tmp_path / "looped"
    looped.symlink_to(pointer)
    looped.replace(pointer)  # a link to itself, which nobody can read
    time.sleep(3 * keeper.CHECK_EVERY_SECONDS)
    assert len(started(notes)) == starts
