"""Retrace's own programs: web processes, Celery workers, and beat."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from apps.common.stack.logs import open_log
from apps.common.stack.paths import StackPaths
from contract.lifetime import tied_to_this_process

ROOT = Path(__file__).resolve().parents[3]


class TerminationSignal(NamedTuple):
    """A signal that asks a program to end, and the grace period in seconds."""

    signum: signal.Signals
    patience: float


@dataclass(kw_only=True)
class Program:
    """A child process in its own session, so that Ctrl-C at the terminal reaches only the supervisor."""

    name: str
    command: list[str]
    log: Path
    environment: Mapping[str, str]
    keep_open: tuple[int, ...] = ()
    """File descriptors that the program inherits."""
    termination_signals: tuple[TerminationSignal, ...] = (TerminationSignal(signal.SIGTERM, 8.0),)
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _asked_at: float | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it; the caller checks readiness."""
        self._asked_at = None
        with open_log(self.log) as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=dict(self.environment),
                pass_fds=self.keep_open,
                start_new_session=True,
                preexec_fn=tied_to_this_process(),
            )

    def terminate(self) -> None:
        """Send the first signal and return immediately, so that several programs can end in parallel."""
        if self.process is not None and self.process.poll() is None and self._asked_at is None:
            self._asked_at = time.monotonic()
            self.process.send_signal(self.termination_signals[0].signum)

    def stop(self) -> None:
        """Send the signals in order, then kill it and the rest of its session."""
        if self.process is None:
            return
        self.terminate()
        asked_at = self._asked_at or time.monotonic()
        for termination in self.termination_signals:
            if termination is not self.termination_signals[0]:
                self.process.send_signal(termination.signum)
                asked_at = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(max(0.0, asked_at + termination.patience - time.monotonic()))
                break
        self.kill()

    def kill(self) -> None:
        """Kill it and its session immediately."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def environment(paths: StackPaths, **more: str) -> dict[str, str]:
    """The environment of our programs: the inherited one, the data folder, and `more`."""
    # DEBUG would keep every SQL statement in memory; an engineer can ask for it.
    return {"DEBUG": "0", **os.environ, "RETRACE_VAR": str(paths.var), "PYTHONUNBUFFERED": "1", **more}


def web(paths: StackPaths, *, listener: int, count: int, env: Mapping[str, str]) -> list[Program]:
    """Uvicorn processes on one shared socket. Not `--workers`: its children would outlive a killed parent."""
    command = [sys.executable, "-m", "uvicorn", "apps.asgi:application", "--fd", str(listener)]
    command += ["--lifespan", "off", "--no-access-log", "--timeout-graceful-shutdown", "3"]
    return [
        Program(
            name=f"web-{number}",
            command=command,
            log=paths.logs / f"web-{number}.log",
            environment=env,
            keep_open=(listener,),
        )
        for number in range(1, count + 1)
    ]


def worker(paths: StackPaths, *, queue: str, concurrency: int, env: Mapping[str, str]) -> Program:
    """A Celery worker. Prefork even with concurrency 1: the parent remains responsive."""
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "--queues", queue]
    command += [
        "--concurrency",
        str(concurrency),
        "--pool",
        "prefork",
        "--hostname",
        f"{queue}@%h",
        "--loglevel",
        "INFO",
    ]
    command += ["--without-gossip", "--without-mingle"]
    return Program(
        name=f"worker-{queue}",
        command=command,
        log=paths.logs / f"worker-{queue}.log",
        environment=env,
        # TERM: accept no new tasks and finish. QUIT: abort running tasks; they're requeued or resumed.
        termination_signals=(TerminationSignal(signal.SIGTERM, 4.0), TerminationSignal(signal.SIGQUIT, 4.0)),
    )


def local_models(paths: StackPaths, *, listener: int, env: Mapping[str, str]) -> Program:
    """The server of small trained models, on an already listening socket."""
    runs = env.get("RUNS_DIR") or str(paths.var / "runs")
    command = [sys.executable, "-m", "trainer.serving.local_models", "--runs", runs, "--fd", str(listener)]
    return Program(
        name="models", command=command, log=paths.logs / "models.log", environment=env, keep_open=(listener,)
    )


def clock(paths: StackPaths, *, env: Mapping[str, str]) -> Program:
    """Celery beat: exactly one per stack."""
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "beat", "--loglevel", "INFO"]
    command += ["--pidfile", ""]
    return Program(name="clock", command=command, log=paths.logs / "clock.log", environment=env)
