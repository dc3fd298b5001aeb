"""Starts runs for tests: in this process where it is about what they do, as a child where it is about how they end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from trainer.events import Event, EventLog, EventReader, RolloutFinished, StampedEvent
from trainer.failures import ExitCode
from trainer.running import run
from trainer.stopping import StopRequest

ROOT = Path(__file__).parents[2]


def write_run(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps(config))
    return path


def run_here(folder: Path, config: dict[str, Any], *, stop_after: int = 0) -> ExitCode:
    """Run in this process; with `stop_after`, as if SIGTERM arrived after so many episodes."""
    stop = StopRequest()
    emit, episodes = EventLog.emit, []

    def counting(log: EventLog, event: Event) -> None:
        emit(log, event)
        episodes.extend([event] * isinstance(event, RolloutFinished))
        stop.requested = 0 < stop_after <= len(episodes)

    with patch.object(EventLog, "emit", counting):
        return run(write_run(folder, config), stop=stop)


def start_child(folder: Path, config: dict[str, Any], **environment: str) -> subprocess.Popen[bytes]:
    """`python -m trainer` as a worker starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "trainer", str(write_run(folder, config))],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def events_of(folder: Path) -> list[StampedEvent]:
    return list(EventReader(folder / "events.jsonl").new_events())


def kinds_of(folder: Path) -> list[str]:
    return [line.event.kind for line in events_of(folder)]
