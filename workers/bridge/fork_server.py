"""Starts the trainer from a process that has loaded its libraries already, which saves each run after the first some seconds.

The server belongs to the thread that first asks: the kernel ends what a thread started with that thread, and the server's own children with the server.
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
from trainer.job import WORK_OF

PATIENCE_SECONDS = 20.0
"""For a server to load and to fork; well within a lease, which nobody renews meanwhile."""
SERVED = ("trainer", "trainer.score")
LOADED = (*sorted({work.partition(":")[0] for work in WORK_OF.values()}), "trainer.rollouts.local", "trainer.score")
GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"))


class Child(Protocol):
    """What `subprocess.Popen` and a forked process have in common."""

    @property
    def pid(self) -> int: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, signum: int, /) -> None: ...


class ServerAway(Exception):
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
            self.returncode = int(status or -signal.SIGKILL)  # a server that was killed takes its children along
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

    def __init__(self, folder: Path, environment: Mapping[str, str], *, load: Sequence[str] = LOADED) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trainer.fork_server", str(theirs.fileno()), *load],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
                preexec_fn=tied_to_this_process(),
            )

    def fork(self, request: ForkRequest, *, output: int, pass_fds: Sequence[int]) -> ForkedChild:
        """Raises ServerAway."""
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        file = request.as_file()
        try:
            with theirs:
                descriptors = array.array("i", [theirs.fileno(), file, output, *pass_fds])
                self._control.sendmsg([b"fork"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            channel.settimeout(PATIENCE_SECONDS)
            if pid := channel.recv(16):
                return ForkedChild(int(pid), channel)
        except OSError:  # TimeoutError is one
            pass
        finally:
            os.close(file)
        channel.close()
        self.end()  # before somebody else does the run
        raise ServerAway

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._control.close()


_of_this_thread = threading.local()


def is_served(command: Sequence[str]) -> bool:
    """Whether `command` may start this way. Not where there is a GPU: a process can't use one after a fork if a library as much as looked for it before."""
    return [*command[:2]] == [sys.executable, "-m"] and command[2] in SERVED and not any(path.exists() for path in GPUS)


def fork(
    request: ForkRequest, *, output: int, pass_fds: Sequence[int], server_environment: Mapping[str, str]
) -> ForkedChild:
    """A process of this thread's server, which is started where it isn't there or has ended. Raises ServerAway."""
    if known := getattr(_of_this_thread, "server", None):
        with suppress(ServerAway):  # it ends by itself after a while
            forked: ForkedChild = known.fork(request, output=output, pass_fds=pass_fds)
            return forked
    server = _of_this_thread.server = Server(Path(request.folder), server_environment)
    return server.fork(request, output=output, pass_fds=pass_fds)
