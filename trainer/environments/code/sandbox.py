"""Runs untrusted code in a process that can only compute; `jail.py` says how it's confined.

Whatever the code does, a run ends in bounded time with bounded output, and leaves nothing behind. If the machine can't confine
it, nothing runs.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from trainer.failures import ConfigFailure

JAIL = Path(__file__).with_name("jail.py")
CPU_SECONDS = 2
WALL_SECONDS = 30.0
"""Only for code that waits without computing: on a busy machine, two CPU seconds may take long."""
MEMORY_MB = 256
OUTPUT_BYTES = 256 * 1024
SLOTS = threading.BoundedSemaphore(max(2, os.cpu_count() or 2))
"""Maximum concurrent sandboxes: more wouldn't be faster, and could exhaust memory."""


class NoIsolation(ConfigFailure):
    """This machine can't confine code, so none is run."""


class Ran(NamedTuple):
    """The results of the calls, in order."""

    results: list[dict[str, Any]]
    """{"value": …} or {"error": text} for each call, with "printed" if it printed anything."""
    walls: list[str]
    """The isolation in place: limits, filter, and namespaces if available."""


def run_calls(
    source: str,
    function: str,
    calls: list[list[Any]],
    *,
    cpu_seconds: int = CPU_SECONDS,
    wall_seconds: float = WALL_SECONDS,
) -> Ran:
    """Load `source` and call `function` once with each list of arguments, all in one process. Raises NoIsolation."""
    request = {
        "source": source,
        "function": function,
        "calls": calls,
        "cpu_seconds": cpu_seconds,
        "memory_mb": MEMORY_MB,
    }
    with SLOTS:
        output, ending = exchange(json.dumps(request).encode(), wall_seconds)
    first, *lines = output.split(b"\n")
    walls = decoded(first).get("walls")
    if not walls:
        raise NoIsolation(
            f"Code cannot be run safely here: {decoded(first).get('refused') or ending or first[:200]!r}.",
            advice="The code environment needs Linux on x86-64 or ARM64 with seccomp filters (any recent kernel has them).",
        )
    results = [result_in(line) for line in lines[: len(calls)] if line]
    lost = {"error": ending or "the process ended before it answered"}
    return Ran(results + [lost] * (len(calls) - len(results)), walls)


def exchange(request: bytes, wall_seconds: float) -> tuple[bytes, str]:
    """The jail's output, and what ended it early, if anything."""
    deadline = time.monotonic() + wall_seconds
    process = subprocess.Popen(
        [sys.executable, "-S", "-s", "-P", "-B", str(JAIL)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONHASHSEED": "0"},  # no inherited variables or secrets; deterministic set iteration
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(request)
        output, problem = read_bounded(process.stdout.fileno(), deadline)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        code = process.wait()
    return output, problem or ended_by(code)


def read_bounded(descriptor: int, deadline: float) -> tuple[bytes, str]:
    """The output up to its end, the deadline, or the size limit."""
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while (remaining := deadline - time.monotonic()) > 0:
            if not selector.select(remaining):
                break
            piece = os.read(descriptor, 65536)
            output += piece
            if not piece:
                return bytes(output), ""
            if len(output) > OUTPUT_BYTES:
                return bytes(output[:OUTPUT_BYTES]), "too much output"
    return bytes(output), "the time was up"


def ended_by(code: int) -> str:
    match -code:
        case signal.SIGXCPU:
            return "it computed for too long"
        case signal.SIGSEGV | signal.SIGABRT | signal.SIGBUS:
            return "the interpreter crashed"
        case number if number > 0:
            return f"it was killed by signal {number}"
    return ""


def decoded(line: bytes) -> dict[str, Any]:
    """The JSON object on a line that hostile code may have written; {} if it isn't one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def result_in(line: bytes) -> dict[str, Any]:
    reply = decoded(line)
    result = {"value": reply["value"]} if "value" in reply else {"error": str(reply.get("error", "no answer"))[:400]}
    return result | ({"printed": str(reply["printed"])[:2000]} if "printed" in reply else {})
