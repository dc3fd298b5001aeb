"""Forks the trainer from a process with its libraries preloaded, which saves several seconds for each run after the first.

The server belongs to the thread that first uses it: the kernel kills it with that thread, and its children with it.
"""

import array
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from contract.lifetime import tied_to_this_process
from trainer.fork_server import ForkRequest
from trainer.job import ENTRY_POINTS

TIMEOUT_SECONDS = 20.0
"""Timeouts for loading and forking, well within a lease, which isn't renewed meanwhile."""
FORKABLE_MODULES = ("trainer", "trainer.score")
PRELOADED_MODULES = (
    *sorted({work.partition(":")[0] for work in ENTRY_POINTS.values()}),
    "trainer.rollouts.local",
    "trainer.score",
)
GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"))


class Child(Protocol):
    """The common interface of `subprocess.Popen` and a forked process."""

    @property
    def pid(self) -> int: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, signum: int, /) -> None: ...


class ForkFailed(Exception):
    """No process could be forked in time."""


class ForkedChild:
    """A process that the server forked."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._channel = channel

    def wait(self, timeout: float | None = None) -> int:
        """The exit status (negative: a signal). Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._channel.settimeout(timeout)
            try:
                status = self._channel.recv(16)
            except TimeoutError:
                raise subprocess.TimeoutExpired("trainer", timeout or 0) from None
            self.returncode = int(status or -signal.SIGKILL)  # the children of a killed server die with it
            self._channel.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.001)
        return None

    def send_signal(self, signum: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)


class Server:
    """A running `python -m trainer.fork_server`."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], *, load: Sequence[str] = PRELOADED_MODULES
    ) -> None:
        self._control, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_end:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trainer.fork_server", str(child_end.fileno()), *load],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[child_end.fileno()],
                preexec_fn=tied_to_this_process(),
            )

    def fork(self, request: ForkRequest, *, output: int, pass_fds: Sequence[int]) -> ForkedChild:
        """Raises ForkFailed."""
        channel, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        file = request.as_file()
        try:
            with child_end:
                descriptors = array.array("i", [child_end.fileno(), file, output, *pass_fds])
                self._control.sendmsg([b"fork"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            channel.settimeout(TIMEOUT_SECONDS)
            if pid := channel.recv(16):
                return ForkedChild(int(pid), channel)
        except OSError:  # includes TimeoutError
            pass
        finally:
            os.close(file)
        channel.close()
        self.kill()  # before another worker claims the run
        raise ForkFailed

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._control.close()


_thread_local = threading.local()


def is_forkable(command: Sequence[str]) -> bool:
    """Whether `command` may be forked. Not with a GPU: a forked process can't use one if a library touched CUDA before the fork."""
    return (
        [*command[:2]] == [sys.executable, "-m"]
        and command[2] in FORKABLE_MODULES
        and not any(path.exists() for path in GPUS)
    )


def fork(
    request: ForkRequest, *, output: int, pass_fds: Sequence[int], server_environment: Mapping[str, str]
) -> ForkedChild:
    """Fork a process from this thread's server, starting the server if needed. Raises ForkFailed."""
    if running := getattr(_thread_local, "server", None):
        with suppress(ForkFailed):  # it ends by itself after a while
            forked: ForkedChild = running.fork(request, output=output, pass_fds=pass_fds)
            return forked
    server = _thread_local.server = Server(Path(request.folder), server_environment)
    return server.fork(request, output=output, pass_fds=pass_fds)
