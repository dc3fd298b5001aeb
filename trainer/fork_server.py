"""`python -m trainer.fork_server FD MODULE…` imports modules once, which takes seconds, and forks a process for each run requested over the socket FD.

It loads before it listens, and starts no threads. It never sees secrets: only a run's own process reads them. It ends with the process
that started it, and after a while without runs, to free its memory.
"""

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from contract.lifetime import die_with_parent
from trainer.job import set_up_libraries

IDLE_SECONDS = 600.0
MAX_DESCRIPTORS = 8


@dataclass(frozen=True)
class ForkRequest:
    """A request for a process. Descriptors sent with it: the channel for its pid and exit status, this request, its output, and inherited ones."""

    module: str
    """Module to run as `python -m` does."""
    arguments: list[str]
    folder: str
    """Working directory."""
    environment: dict[str, str]
    niceness: int = 0
    oom_score: int = 0
    """Its oom_score_adj."""

    def as_file(self) -> int:
        """The descriptor of an in-memory file. Only the forked process reads it, so that one run's API keys never reach the fork server."""
        file = os.memfd_create("request")
        with os.fdopen(os.dup(file), "w", encoding="utf-8") as stream:
            json.dump(asdict(self), stream)
        return file

    @classmethod
    def from_file(cls, file: int) -> "ForkRequest":
        with os.fdopen(file, encoding="utf-8") as stream:
            stream.seek(0)
            return cls(**json.load(stream))


class Child(NamedTuple):
    pid: int
    channel: socket.socket


@dataclass
class ForkServer:
    """Forks processes and reports how each ended."""

    control: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    children: dict[int, Child] = field(default_factory=dict)
    """Children by the descriptor that signals their end."""

    def serve(self) -> Iterator[ForkRequest]:
        """Returns None in the server, and its request in each forked process."""
        self.selector.register(self.control, selectors.EVENT_READ)
        idle_since = time.monotonic()
        while self.children or time.monotonic() - idle_since < IDLE_SECONDS:
            for key, _ in self.selector.select(IDLE_SECONDS):
                idle_since = time.monotonic()
                if key.fd != self.control.fileno():
                    self._report_end(key.fd)
                    continue
                message, descriptors, _, _ = socket.recv_fds(self.control, 16, MAX_DESCRIPTORS)
                if not message:  # the client is gone
                    return
                if request := self._fork(*descriptors):
                    yield request
                    return

    def _fork(self, channel: int, request: int, output: int, *inherited: int) -> ForkRequest | None:
        server = os.getpid()
        if pid := os.fork():
            for descriptor in (request, output, *inherited):
                os.close(descriptor)
            child = Child(pid, socket.socket(fileno=channel))
            end = os.pidfd_open(pid)
            self.children[end] = child
            self.selector.register(end, selectors.EVENT_READ)
            return None
        os.setsid()
        die_with_parent(signal.SIGKILL, parent=server)
        with socket.socket(fileno=channel) as parent:
            # Only once it leads a session, since the recipient may kill the process group.
            _send_number(parent, os.getpid())
        self._close_inherited()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        return ForkRequest.from_file(request)

    def _close_inherited(self) -> None:
        """Close the server's descriptors in a forked process."""
        self.selector.close()
        self.control.close()
        for end, child in self.children.items():
            os.close(end)
            child.channel.close()

    def _report_end(self, end: int) -> None:
        self.selector.unregister(end)
        os.close(end)
        child = self.children.pop(end)
        _, status = os.waitpid(child.pid, 0)
        _send_number(child.channel, os.waitstatus_to_exitcode(status))
        child.channel.close()


def _send_number(channel: socket.socket, number: int) -> None:
    with suppress(OSError):  # the client is gone
        channel.send(str(number).encode())


def load(modules: Iterable[str]) -> None:
    """Import the modules and freeze the garbage collector's objects: collection would copy memory shared with forked processes."""
    set_up_libraries()
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def become(request: ForkRequest) -> None:
    """Run the requested process until it ends."""
    os.chdir(request.folder)
    os.nice(request.niceness)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(request.oom_score))
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = [request.module, *request.arguments]
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    load(sys.argv[2:])
    for request in ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve():
        become(request)
