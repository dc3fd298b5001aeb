"""The child process of a run: starting, ending, and locking its folder."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from django.conf import settings

from apps.training.folders import RunFolder
from contract.lifetime import TIED, die_with_parent
from contract.outgoing.networks import OutgoingRules
from contract.tracking import KEYS
from trainer.fork_server import ForkRequest
from workers.bridge.fork_server import ForkedChild, ForkFailed, fork, is_forkable

OOM_SCORE = 600
"""The child's oom_score_adj: when memory runs out, the kernel should kill it rather than the database."""
SECRETS = (
    "SECRET_KEY",
    "DATABASE_URL",
    "VALKEY_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "EMAIL_HOST_PASSWORD",
    "LOCAL_MODELS_KEY",
)
"""Variables withheld from the child. So are API keys that its run doesn't name, and credentials of trackers that it doesn't use."""
KEY_SUFFIX = "_API_KEY"


class FolderLocked(Exception):
    """A child of an earlier attempt is still working in the folder."""


@contextmanager
def locked(folder: RunFolder, *, timeout: float) -> Iterator[int]:
    """Lock the folder; yields the descriptor for the child to inherit, so that the lock lasts until both are gone.

    Raises FolderLocked if it's still locked after `timeout` seconds.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise FolderLocked(folder.path) from None
                time.sleep(0.2)
        yield descriptor
    finally:
        os.close(descriptor)


class ProcessSpec(NamedTuple):
    """How to start a child."""

    command: list[str]
    output: int
    environment: dict[str, str]
    pass_fds: list[int]
    niceness: int

    def fork_child(self) -> ForkedChild | None:
        """Fork from this thread's server with preloaded libraries; None if that's not possible."""
        # An address space limit counts mapped memory, so a child with one can't be forked with libraries loaded.
        if settings.TRAINER_MEMORY_MB or not is_forkable(self.command):
            return None
        request = ForkRequest(
            module=self.command[2],
            arguments=self.command[3:],
            folder=str(settings.BASE_DIR),
            environment=self.environment,
            niceness=self.niceness,
            oom_score=OOM_SCORE,
        )
        with suppress(ForkFailed):
            return fork(request, output=self.output, pass_fds=self.pass_fds, server_environment=_environment(keys=()))
        return None

    def spawn(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command,
            cwd=settings.BASE_DIR,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self.pass_fds,
            preexec_fn=_before_exec(self.niceness),
        )


class ChildProcess:
    """A running child. Leaving the `with` block in any way ends it and everything that it started.

    The child runs in its own session, so that Ctrl-C at the worker doesn't reach it, and the kernel kills it when
    the worker dies.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        keys: Collection[str] = (),
        pass_fds: Sequence[int] = (),
        niceness: int = 0,
        loads_models: bool = True,
    ) -> None:
        """keys: variables of the API keys that it may see. niceness: its nice value."""
        with log.open("ab") as output:
            spec = ProcessSpec(list(command), output.fileno(), _environment(keys), list(pass_fds), niceness)
            self._child = (spec.fork_child() if loads_models else None) or spec.spawn()

    @property
    def pid(self) -> int:
        return self._child.pid

    def wait(self, seconds: float) -> int | None:
        """The exit status (negative: a signal), or None if it's still running after `seconds`."""
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(seconds)
        return None

    def terminate(self) -> None:
        """SIGTERM: the trainer saves a checkpoint and exits."""
        self._child.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and its children immediately."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()  # even if it has ended, since its children may not have
        self._child.wait()


class TrainerProcess(ChildProcess):
    """The trainer process of a run; it holds the lock on the run's folder."""

    def __init__(self, folder: RunFolder, *, lock: int, niceness: int = 0) -> None:
        command = [*settings.TRAINER_COMMAND, str(folder.config)]
        config = _config(folder)
        super().__init__(
            command,
            log=folder.log,
            keys={*_key_variables(config), *_tracker_variables(config)},
            pass_fds=[lock],
            niceness=niceness,
            loads_models=config.get("policy", {}).get("engine", "local") == "local",
        )


def _config(folder: RunFolder) -> dict[str, Any]:
    with suppress(FileNotFoundError):
        config: dict[str, Any] = json.loads(folder.config.read_text(encoding="utf-8"))
        return config
    return {}


def _key_variables(value: object) -> Iterator[str]:
    """Variables of API keys named in a run.json."""
    if isinstance(value, dict):
        if isinstance(variable := value.get("api_key_variable"), str):
            yield variable
        for item in value.values():
            yield from _key_variables(item)
    elif isinstance(value, list):
        for item in value:
            yield from _key_variables(item)


def _tracker_variables(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The variables of the tracker's credentials."""
    return KEYS.get(str(config.get("tracker")), ())


def _environment(keys: Collection[str]) -> dict[str, str]:
    all_keys = {permission.variable for permission in settings.ENDPOINT_KEYS}
    all_keys |= {name for name in os.environ if name.endswith(KEY_SUFFIX)}
    all_keys |= {name for names in KEYS.values() for name in names}
    withheld = {*SECRETS, *(all_keys - set(keys))}
    inherited = {name: value for name, value in os.environ.items() if name not in withheld}
    # Unbuffered output, since the log is watched live. TRAINER_COMMAND may be a launcher: the kernel kills it with this
    # worker, but its own children only if they request that.
    return (
        inherited
        | OutgoingRules.from_environment().to_environment()
        | {
            "PYTHONUNBUFFERED": "1",
            "TOKENIZERS_PARALLELISM": "false",
            TIED: "1",
        }
    )


def _before_exec(niceness: int) -> Callable[[], None]:
    parent = os.getpid()
    limit = settings.TRAINER_MEMORY_MB * 1024 * 1024

    def prepare() -> None:
        die_with_parent(signal.SIGKILL, parent=parent)
        os.nice(niceness)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return prepare
