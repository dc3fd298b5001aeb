"""Starts runs for tests: in this process to test what they do, as a child process to test how they end."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from contract.events import Event, EventReader, StampedEvent
from trainer.events import EventLog
from trainer.failures import ExitCode
from trainer.fork_server import ForkRequest
from trainer.interruption import StopRequest
from trainer.job import run
from workers.bridge.fork_server import ForkedChild, fork

ROOT = Path(__file__).parents[2]


def write_run(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps(config))
    return path


def run_here(folder: Path, config: dict[str, Any], *, stop_on: Callable[[Event], bool] = lambda _: False) -> ExitCode:
    """Run in this process, as if SIGTERM arrived while the first event selected by `stop_on` was being written."""
    stop = StopRequest()
    emit = EventLog.emit

    def watched(log: EventLog, event: Event) -> None:
        stop.requested = stop.requested or stop_on(event)
        emit(log, event)

    with patch.object(EventLog, "emit", watched):
        return run(write_run(folder, config), stop=stop)


def start_child(folder: Path, config: dict[str, Any]) -> ForkedChild:
    """Start it as a worker does. Its output is in `output_of` its folder."""
    return fork_child(write_run(folder, config))


def fork_child(path: Path, **environment: str) -> ForkedChild:
    """Start the run described by `path`, a run.json, with more environment variables."""
    request = ForkRequest("trainer", [str(path)], str(ROOT), {**os.environ, **environment})
    with (path.parent / "output.txt").open("ab") as output:
        return fork(request, output=output.fileno(), pass_fds=[], server_environment=os.environ)


def output_of(folder: Path) -> str:
    return (folder / "output.txt").read_text()[-2000:]


def events_of(folder: Path) -> list[StampedEvent]:
    return list(EventReader(folder / "events.jsonl").new_events())


def kinds_of(folder: Path) -> list[str]:
    return [line.event.kind for line in events_of(folder)]
