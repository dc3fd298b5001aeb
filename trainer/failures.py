"""The ways a run can fail, with exit codes for the process that started it.

Every expected failure is a `RunFailure` with three things: what happened, what was expected, and
what to do now. Anything else that is raised is a crash.
"""

import errno
import resource
from enum import IntEnum
from pathlib import Path
from typing import Literal

from contract.configs.errors import InvalidConfig

Category = Literal["data", "config", "out_of_memory", "server", "crash"]


class ExitCode(IntEnum):
    """What `python -m trainer` exits with; the last event in `events.jsonl` has the details."""

    FINISHED = 0
    CRASH = 1
    CONFIG = 2
    DATA = 3
    OUT_OF_MEMORY = 4
    CANCELLED = 5
    SERVER = 6


EXIT_CODE_OF: dict[Category, ExitCode] = {
    "crash": ExitCode.CRASH,
    "config": ExitCode.CONFIG,
    "data": ExitCode.DATA,
    "out_of_memory": ExitCode.OUT_OF_MEMORY,
    "server": ExitCode.SERVER,
}


class RunFailure(Exception):
    """A failure that the run's owner can act on."""

    category: Category = "crash"

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


class ConfigFailure(RunFailure):
    """`run.json` is invalid: an unknown key, a value out of range, a missing model."""

    category = "config"


class DataFailure(RunFailure):
    """A data file is missing, too small, or holds a row that cannot be used."""

    category = "data"


class OutOfMemory(RunFailure):
    """The machine or the accelerator had no memory left."""

    category = "out_of_memory"


class ServerDied(RunFailure):
    """The server behind a policy died during the run and didn't come back."""

    category = "server"


class Cancelled(Exception):
    """The run was asked to stop (SIGTERM or Ctrl-C) and has saved what it had.

    checkpoint: the folder to resume from, or "" if nothing had been done yet.
    """

    def __init__(self, checkpoint: str = "") -> None:
        super().__init__(checkpoint)
        self.checkpoint = checkpoint


def as_failure(error: BaseException) -> RunFailure:
    """Convert any exception to a failure event."""
    if isinstance(error, RunFailure):
        return error
    if isinstance(error, InvalidConfig):
        return ConfigFailure(error.message, advice=error.advice)
    first_line = (str(error).splitlines() or [""])[0]
    if is_out_of_memory(error):
        return OutOfMemory(
            f"Out of memory: {first_line or type(error).__name__}",
            advice="Lower optimizer.batch_size (raise gradient_accumulation to match) or max_length, turn on "
            "gradient_checkpointing or lora, or use a smaller model or a larger machine.",
        )
    if is_disk_full(error):
        return RunFailure(
            f"No space left on device, where the run's files are: {first_line or type(error).__name__}",
            advice="Free some space (old runs' checkpoints are the largest files), then start this run again: it continues from its last "
            "complete checkpoint.",
        )
    return RunFailure(
        f"{type(error).__name__}: {first_line}",
        advice="The details show where; run the command by hand to reproduce it.",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it's an out-of-memory error of Python, CUDA, or the CPU allocator. Matched by name, since this module doesn't import torch."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, SystemError):  # raised by the interpreter and C extensions without a reason
        return _is_near_memory_limit()
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("can't allocate memory" in message or "out of memory" in message)


def is_disk_full(error: BaseException) -> bool:
    """Whether it, or an exception in its chain, is a disk-full error of the system or of libraries that write files themselves."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        message = str(cause).lower()
        if "no space left" in message or (
            "inline_container.cc" in message and "fail" in message
        ):  # torch, which gives no reason
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _is_near_memory_limit() -> bool:
    """Whether this process's peak address space reached at least 7/8 of its limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return False
    status = Path("/proc/self/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmPeak:"))
    return peak_kb * 1024 >= limit * 7 / 8
