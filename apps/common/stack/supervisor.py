"""Restarts parts that end, and stops them in order."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Protocol

import psutil

from apps.common.stack.errors import StackError
from apps.common.stack.logs import last_lines
from apps.common.stack.programs import Program

LOOK_EVERY = 0.25  # seconds
MAX_WAIT = 60.0  # seconds between two restarts of a part that keeps ending
STEADY_SECONDS = 120.0
"""After running this long, a part's restart backoff resets."""


class Part(Protocol):
    """A child process: a service or a program."""

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> Path: ...
    @property
    def process(self) -> "Popen[bytes] | None": ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


@dataclass
class Restarts:
    """How often a part was restarted in a row, and when the next restart is due. Times are of time.monotonic."""

    count: int = 0
    started_at: float = 0.0
    due_at: float | None = None
    """None while the part is believed to be running."""

    def ended(self, now: float) -> float:
        """Record that the part ended; returns the backoff in seconds: 0, then 1, 2, 4, … up to a minute."""
        if self.due_at is None and now - self.started_at > STEADY_SECONDS:
            self.count = 0
        wait = min(2.0 ** (self.count - 1), MAX_WAIT) if self.count else 0.0
        self.count += 1
        self.due_at = now + wait
        return wait

    def started(self, now: float) -> None:
        self.started_at, self.due_at = now, None


class Supervisor:
    """Supervises parts. Services come first in `parts`, since the others depend on them.

    Each part is restarted independently, without limit: what it lacks (disk space, memory, another part) may come back.
    """

    def __init__(self, parts: Sequence[Part], print_line: Callable[[str], None]) -> None:
        self.parts = parts
        self._print = print_line
        self._restarts = {part.name: Restarts() for part in parts}

    def watch(self, sleep: Callable[[float], None]) -> None:
        """Restart what ends, until `sleep` raises."""
        while True:
            for part in self.parts:
                self._supervise_part(part, self._restarts[part.name])
            self._reap_adopted()
            sleep(LOOK_EVERY)

    def _supervise_part(self, part: Part, restarts: Restarts) -> None:
        if restarts.due_at is not None:
            if time.monotonic() >= restarts.due_at:
                self._restart(part, restarts)
        elif part.process is not None and (status := part.process.poll()) is not None:
            wait = restarts.ended(time.monotonic())
            self.print_line(
                f"{part.name} {exit_description(status)}. The end of {part.log}:\n{last_lines(part.log)}\n"
                f"Starting {part.name} again{f' in {wait:.0f} s' if wait else ''} (restart {restarts.count})."
            )

    def _restart(self, part: Part, restarts: Restarts) -> None:
        try:
            part.stop()  # the rest of its session
            part.start()
        except (StackError, OSError) as error:
            wait = restarts.ended(time.monotonic())
            self.print_line(
                f"{part.name} does not start: {error}\nTrying again in {wait:.0f} s (restart {restarts.count})."
            )
        else:
            restarts.started(time.monotonic())

    def print_line(self, text: str) -> None:
        """Print to the terminal, which may be a file on a full disk."""
        with suppress(OSError):
            self._print(text)

    def _reap_adopted(self) -> None:
        """Reap adopted orphans (see `adopt_orphans`) that have ended."""
        part_pids = {part.process.pid for part in self.parts if part.process is not None}
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess, ChildProcessError):
                if child.pid not in part_pids and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)


def stop_together(programs: Sequence[Program]) -> None:
    """Stop programs in parallel, then whatever they left behind."""
    for program in programs:
        program.terminate()
    for program in programs:
        program.stop()


def kill_descendants(*, keep: Sequence["Popen[bytes] | None"] = ()) -> None:
    """Kill all descendants except `keep` and their descendants."""
    kept_pids = {process.pid for process in keep if process is not None}
    for child in psutil.Process().children():
        if child.pid in kept_pids:
            continue
        with suppress(psutil.NoSuchProcess):
            for process in (*child.children(recursive=True), child):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            with suppress(psutil.TimeoutExpired):  # in an uninterruptible wait; the kernel kills it later
                child.wait(5)


def exit_description(status: int) -> str:
    """Describe an exit status."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended by itself with status {status}"
