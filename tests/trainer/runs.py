"""Starts runs for tests: in this process where it is about what they do, as a child where it is about how they end."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from contract.events import Event, EventReader, StampedEvent
from trainer.events import EventLog
from trainer.failures import ExitCode
from trainer.interruption import StopRequest
from trainer.job import run

ROOT = Path(__file__).parents[2]


def write_run(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps(config))
    return path


def run_here(folder: Path, config: dict[str, Any], *, stop_on: Callable[[Event], bool] = lambda _: False) -> ExitCode:
    """Run in this process; as if SIGTERM arrived while the first event that `stop_on` picks was being written."""
    stop = StopRequest()
    emit = EventLog.emit

    def watched(log: EventLog, event: Event) -> None:
        stop.requested = stop.requested or stop_on(event)
        emit(log, event)

    with patch.object(EventLog, "emit", watched):
        return run(write_run(folder, config), stop=stop)


def start_child(folder: Path, config: dict[str, Any]) -> subprocess.Popen[bytes]:
    """`python -m trainer` as a worker starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "trainer", str(write_run(folder, config))],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def events_of(folder: Path) -> list[StampedEvent]:
    return list(EventReader(folder / "events.jsonl").new_events())


def kinds_of(folder: Path) -> list[str]:
    return [line.event.kind for line in events_of(folder)]
