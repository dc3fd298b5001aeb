"""Keeps the parts alive, and ends them in order."""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Protocol

import psutil

from apps.common.stack.errors import StackError
from apps.common.stack.logs import last_lines
from apps.common.stack.programs import Program

LOOK_EVERY = 0.25  # seconds
RESTARTS = 5
RESTARTS_WITHIN = 120.0  # seconds


class Part(Protocol):
    """Something that runs as one child process: a service or a program."""

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> Path: ...
    @property
    def process(self) -> "Popen[bytes] | None": ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Supervisor:
    """Watches parts. Services come first in `parts`, since the others need them to start."""

    def __init__(self, parts: Sequence[Part], say: Callable[[str], None]) -> None:
        self.parts = parts
        self.say = say
        self._restarts: dict[str, deque[float]] = {part.name: deque() for part in parts}

    def watch(self, sleep: Callable[[float], None]) -> None:
        """Restart what ends, until `sleep` raises. Raises StackError when a part ends too often."""
        while True:
            for part in self.parts:
                if part.process is not None and part.process.poll() is not None:
                    self._restart(part)
            self._reap_adopted()
            sleep(LOOK_EVERY)

    def _restart(self, part: Part) -> None:
        assert part.process is not None
        story = f"{part.name} {how_it_ended(part.process.returncode)}. The end of {part.log}:\n{last_lines(part.log)}"
        recent = self._restarts[part.name]
        while recent and recent[0] < time.monotonic() - RESTARTS_WITHIN:
            recent.popleft()
        if len(recent) == RESTARTS:
            raise StackError(f"{story}\n{part.name} ended {RESTARTS + 1} times in {RESTARTS_WITHIN:.0f} s; giving up.")
        recent.append(time.monotonic())
        self.say(f"{story}\nStarting {part.name} again ({len(recent)} of {RESTARTS}).")
        part.stop()  # what is left of its session
        part.start()

    def _reap_adopted(self) -> None:
        """Collect orphans that became ours (see `adopt_orphans`) and have ended."""
        ours = {part.process.pid for part in self.parts if part.process is not None}
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess, ChildProcessError):
                if child.pid not in ours and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)


def stop_together(programs: Sequence[Program]) -> None:
    """End programs side by side, then whatever they left behind."""
    for program in programs:
        program.ask_to_stop()
    for program in programs:
        program.stop()


def kill_descendants(*, keep: Sequence["Popen[bytes] | None"] = ()) -> None:
    """Kill every process below this one except `keep` and what is below them."""
    kept = {process.pid for process in keep if process is not None}
    for child in psutil.Process().children():
        if child.pid in kept:
            continue
        with suppress(psutil.NoSuchProcess):
            for process in (*child.children(recursive=True), child):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            with suppress(psutil.TimeoutExpired):  # in an uninterruptible wait; the kernel ends it later
                child.wait(5)


def how_it_ended(status: int) -> str:
    """An exit status in words."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended by itself with status {status}"
