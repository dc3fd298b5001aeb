"""Determines how a child ended, from its exit status, last event, log, and the kernel's OOM counters. Pure except for `oom_kills`."""

import errno
import re
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from contract.events import Event, Failed, Finished, RunCancelled
from trainer.failures import ExitCode

NO_SPACE = re.compile(rf"No space left on device|\[Errno {errno.ENOSPC}\]|Disk quota exceeded")
NO_MEMORY = re.compile(
    r"MemoryError|std::bad_alloc|Cannot allocate memory|can't allocate memory|failed to map segment from shared object|[Oo]ut of memory|OutOfMemoryError"
)
MEMORY_ADVICE = (
    "Halve the batch size and double the accumulation, shorten the longest row, turn on gradient checkpointing, or use "
    "LoRA; then launch it again."
)
CATEGORY_OF_EXIT: dict[int, str] = {ExitCode.CONFIG: "config", ExitCode.DATA: "data"}


@dataclass(frozen=True)
class ChildEnd:
    """Everything known about a child that ended."""

    status: int
    """Exit status; negative signal number if killed by a signal."""
    last_event: Event | None
    """The last of the events that end a run (finished, cancelled, failed) in this attempt."""
    log: list[str] = field(default_factory=list)
    """The last lines of its log."""
    oom_kills: int = 0
    """Processes OOM-killed by the kernel while it ran."""
    disk_is_full: bool = False
    """Whether its folder's disk is full, in which case its last event may be missing."""
    stop_requested: bool = False
    """Whether the worker asked it to stop."""
    kill_reason: Literal["", "stop_timeout", "silence_timeout"] = ""
    """Why the worker killed it: it didn't stop in time when asked, or was silent for too long."""


@dataclass(frozen=True)
class Outcome:
    """The result of an attempt."""

    kind: Literal["finished", "cancelled", "failed", "lost"]
    """lost: it's retried from its last checkpoint."""
    category: str = ""
    """If failed or lost: data, config, out_of_memory, server, disk_full, killed, lost or crash."""
    message: str = ""
    advice: str = ""
    details: str = ""
    report: dict[str, Any] = field(default_factory=dict)


def outcome_of(end: ChildEnd) -> Outcome:
    """The result of an attempt, given how its child ended."""
    match end.last_event:
        case Finished(report=report):
            return Outcome("finished", report=report)
        case RunCancelled(reason=reason):
            return Outcome("cancelled", message=reason or "It stopped when asked to.")
        case Failed() as failed:
            return _outcome_of_failure(failed)
    match end.kill_reason:
        case "stop_timeout":
            return Outcome("cancelled", message="It did not stop in time and was killed.")
        case "silence_timeout":
            return Outcome(
                "lost",
                "lost",
                "The training process gave no sign of life and was killed.",
                "Its log may say what it waits for. Resume the run; it continues from its last checkpoint.",
            )
    if end.stop_requested and end.status == -signal.SIGTERM:
        return Outcome(
            "cancelled", message="It stopped before it had begun."
        )  # the trainer wasn't handling signals yet
    return _signaled(end) if end.status < 0 else _exited(end)


def disk_full(message: str) -> Outcome:
    """The failure for a full disk."""
    return Outcome(
        "failed",
        "disk_full",
        f"The disk that holds the run's files is full: {message}",
        "Free some space (old runs' checkpoints are the largest files), then resume this run.",
    )


def oom_kills() -> int:
    """Processes OOM-killed by the kernel: in this cgroup, and on the machine."""
    total = 0
    for counter in (*_memory_events(), Path("/proc/vmstat")):
        with suppress(OSError):
            for line in counter.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    total += int(value)
    return total


def _memory_events() -> list[Path]:
    """The memory counters of this process's cgroup (v2)."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return [Path("/sys/fs/cgroup") / line[3:].lstrip("/") / "memory.events"]
    return []


def _outcome_of_failure(failed: Failed) -> Outcome:
    """The trainer itself reported what went wrong."""
    report = f"{failed.message}\n{failed.details}"
    if failed.category == "crash" and NO_SPACE.search(report):
        return disk_full(failed.message)
    if failed.category == "crash" and NO_MEMORY.search(report):
        return _out_of_memory(failed.message, failed.details)
    advice = failed.advice or ("The traceback below says where." if failed.category == "crash" else "")
    return Outcome("failed", failed.category, failed.message, advice, failed.details)


def _signaled(end: ChildEnd) -> Outcome:
    number = -end.status
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    text = "\n".join(end.log)
    if number == signal.SIGKILL and end.oom_kills:
        # Something else may have used the memory, so a retry is worthwhile.
        return Outcome(
            "lost",
            "out_of_memory",
            "The kernel killed the training process because the machine had no memory left.",
            MEMORY_ADVICE,
        )
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return Outcome(
            "lost" if number == signal.SIGKILL else "failed",
            "killed",
            f"The training process was killed from outside ({name}): by a person, a scheduler or a container's limit.",
            "Resume the run; it continues from its last checkpoint. If it happens again, find out what sends the signal; if it's "
            "a container's memory limit, lower the batch size or raise the limit.",
        )
    if NO_MEMORY.search(text):
        return _out_of_memory(f"The training process ran out of memory and died ({name}).")
    return Outcome(
        "failed",
        "crash",
        f"The training process crashed ({name}): {signal.strsignal(number) or name}.",
        "A native library failed. The last lines of the log may say which; run the command below by hand to see more.",
    )


def _exited(end: ChildEnd) -> Outcome:
    """It exited without a final event: it died before its event log was open, or couldn't write to it."""
    text = "\n".join(end.log)
    last_line = next((line.strip() for line in reversed(end.log) if line.strip()), "it printed nothing")
    if NO_SPACE.search(text) or end.disk_is_full:
        return disk_full(last_line)
    if NO_MEMORY.search(text) or end.status == ExitCode.OUT_OF_MEMORY:
        return _out_of_memory(f"The training process ran out of memory: {last_line}")
    return Outcome(
        "failed",
        CATEGORY_OF_EXIT.get(end.status, "crash"),
        f"The training process ended with status {end.status} without saying why. Its last line: {last_line}",
        "Run the command below by hand to see what happens.",
    )


def _out_of_memory(message: str, details: str = "") -> Outcome:
    return Outcome("failed", "out_of_memory", message, MEMORY_ADVICE, details)
