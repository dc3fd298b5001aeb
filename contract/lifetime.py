"""Ends child processes with their parent, however the parent dies.

Linux sends a chosen signal to a process whose parent dies (PR_SET_PDEATHSIG), even when the parent was
killed with SIGKILL. This module imports nothing but the standard library: the supervisor, the Celery workers and
the bridge that starts training all use it.

The kernel watches the *thread* that forked. Start such children from a thread that lives as long as the process.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable

TIED = "TIED_TO_PARENT"
"""The variable that asks a program to die with its parent, for programs started through a launcher."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)  # loaded here because importing after a fork isn't safe


def prctl(option: int, *arguments: int) -> None:
    """Call prctl(2); raises OSError when the kernel refuses."""
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *padded) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def die_with_parent(signum: signal.Signals = signal.SIGKILL, *, parent: int | None = None) -> None:
    """Have the kernel send `signum` to this process when its parent dies.

    parent: the pid of the caller's parent, to detect that it died before this call.
    """
    expected = os.getppid() if parent is None else parent
    prctl(_PR_SET_PDEATHSIG, signum)
    if os.getppid() != expected:
        os.kill(os.getpid(), signal.SIGKILL)


def tied_to_this_process(signum: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """A `preexec_fn` for `subprocess.Popen` that makes the child die with the calling process."""
    parent = os.getpid()
    return lambda: die_with_parent(signum, parent=parent)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that it can find and end them."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def stop(process: "subprocess.Popen[bytes]", *, patience: float, signum: signal.Signals = signal.SIGTERM) -> int:
    """Signal a child to end, wait `patience` seconds, then kill it. Returns its exit status."""
    if process.poll() is None:
        process.send_signal(signum)
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
