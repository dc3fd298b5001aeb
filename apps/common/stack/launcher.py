"""Implements `manage.py run`: start every part, print the address, supervise, and stop in order."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

from apps.common.stack import ports, programs, readiness
from apps.common.stack.errors import StackError
from apps.common.stack.logs import last_lines, open_log
from apps.common.stack.paths import StackPaths
from apps.common.stack.services import EmbeddedServices
from apps.common.stack.supervisor import Supervisor, kill_descendants, stop_together
from contract.lifetime import adopt_orphans, die_with_parent, tied_to_this_process

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """A signal requested a stop. Not an Exception, so that nothing swallows it."""


class StopSignal:
    """Raises StopRequested in the signal handler, and again at the next `check`.

    Raising once isn't enough: Python drops exceptions raised in the hooks around a fork.
    """

    def __init__(self) -> None:
        self._requested = False

    def listen(self) -> None:
        """Take over SIGINT, SIGTERM and SIGHUP."""
        _on_signals(self._request)

    def then(self, act: Callable[[], None]) -> None:
        """Make further signals call `act` instead, since we're already stopping."""
        _on_signals(lambda signum, frame: act())

    def check(self) -> None:
        """Raise StopRequested if a signal was received."""
        if self._requested:
            raise StopRequested

    def sleep(self, seconds: float) -> None:
        """Sleep, unless a signal was or is received."""
        self.check()
        time.sleep(seconds)
        self.check()

    def _request(self, signum: int, frame: FrameType | None) -> None:
        self._requested = True
        raise StopRequested


def _on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    for signum in SIGNALS:
        signal.signal(signum, handler)


QUEUES = {"default": 4, "remote": 3, "generate": 1, "train": 1}  # tasks at once; a device holds one training run


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Command-line options."""

    host: str
    port: int
    or_next_free: bool
    """Whether another port may be used if this one is taken."""
    web_processes: int
    seed: bool
    """Whether to fill the demo workspace."""
    tied_to_parent: bool
    """Whether to stop when the parent (make) dies."""


def run(paths: StackPaths, options: RunOptions) -> None:
    """Run the stack until SIGINT, SIGTERM, or SIGHUP. Raises StackError if it can't."""
    adopt_orphans()
    if options.tied_to_parent:
        die_with_parent(signal.SIGTERM)
    services = EmbeddedServices(paths, postgres="DATABASE_URL" not in os.environ, valkey="VALKEY_URL" not in os.environ)
    undo, stop = ExitStack(), StopSignal()
    stop.listen()
    try:
        _start(paths, options, services, undo, stop).watch(stop.sleep)
    except StopRequested:
        _print("\nStopping … (Ctrl-C again to kill what is still running)")
    finally:
        stop.then(lambda: kill_descendants(keep=[part.process for part in services.parts]))
        started = time.monotonic()
        undo.close()
        kill_descendants()
        _print(f"Stopped in {time.monotonic() - started:.1f} s.")


def _start(
    paths: StackPaths, options: RunOptions, services: EmbeddedServices, undo: ExitStack, stop: StopSignal
) -> Supervisor:
    """Start everything in order; `undo` stops what was started, in reverse order."""
    with _step("Database and broker"):
        undo.enter_context(services)
    listener = ports.listen(host=options.host, port=options.port, or_next_free=options.or_next_free)
    undo.callback(listener.close)
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if options.port not in (0, port):
        _print(f"  Port {options.port} is in use by another program; using {port}.")
    # Endpoints must not point to Retrace itself.
    env = programs.environment(paths, OUTGOING_REFUSED_SERVICES=f"{f'[{host}]' if ':' in host else host}:{port}")
    models = None if "LOCAL_MODELS_URL" in os.environ else ports.listen(host="127.0.0.1", port=0, or_next_free=False)
    if models:
        undo.callback(models.close)
        env["LOCAL_MODELS_URL"] = f"http://127.0.0.1:{models.getsockname()[1]}/v1"
        env["LOCAL_MODELS_KEY"] = secrets.token_urlsafe(32)
    stop.check()
    with _step("Migrations"):
        _manage(paths, env, "migrate", "--no-input")
    stop.check()
    sign_ins = _seed(paths, env) if options.seed else ""
    stop.check()
    parts = [
        *programs.web(paths, listener=listener.fileno(), count=options.web_processes, env=env),
        *(programs.worker(paths, queue=queue, concurrency=count, env=env) for queue, count in QUEUES.items()),
        programs.clock(paths, env=env),
        *([programs.local_models(listener=models.fileno(), paths=paths, env=env)] if models else []),
    ]
    with _step("Web and workers"):
        undo.callback(stop_together, parts)
        for part in parts:
            part.start()
        checks = readiness.page_answers(address), readiness.workers_respond(QUEUES)
        readiness.wait_for(parts, *checks, sleep=stop.sleep)
    services.lock.announce(address)
    _print(f"\nRetrace answers at {address}\n{sign_ins}\nLogs are in {paths.logs}. Ctrl-C stops everything.\n")
    return Supervisor([*services.parts, *parts], _print)


def _seed(paths: StackPaths, env: Mapping[str, str]) -> str:
    """Fill the demo workspace, and return the command's stdout: the demo accounts.

    A failing demo doesn't prevent the start.
    """
    try:
        with _step("Demo workspace"):
            return _manage(paths, env, "seed_demo")
    except StackError as error:
        _print(f"{error}\nGoing on without it.")
        return ""


def _manage(paths: StackPaths, env: Mapping[str, str], *arguments: str) -> str:
    """Run a management command and return its stdout; its stderr goes to the log.

    In a child process, because database connections start threads, and a program with threads shouldn't fork.
    """
    log_path = paths.logs / f"{arguments[0]}.log"
    with open_log(log_path) as log:
        finished = subprocess.run(
            [sys.executable, str(programs.ROOT / "manage.py"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=programs.ROOT,
            env=dict(env),
            text=True,
            start_new_session=True,
            preexec_fn=tied_to_this_process(),
            check=False,
        )
    if finished.returncode != 0:
        raise StackError(f"`manage.py {' '.join(arguments)}` failed. The end of {log_path}:\n{last_lines(log_path)}")
    return finished.stdout


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Print a step and its duration."""
    print(f"  {name + ' …':<24}", end="", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        _print("failed" if not isinstance(sys.exception(), StopRequested) else "")
        raise
    _print(f"{time.monotonic() - started:5.1f} s")


def _print(text: str) -> None:
    print(text, flush=True)
