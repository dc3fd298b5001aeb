"""Writes the events of a run (see `contract.events`) from several threads, so that a kill loses no event."""

import json
import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from contract.events import (
    AlarmRaised,
    CheckpointSaved,
    Event,
    Failed,
    Finished,
    Heartbeat,
    Log,
    Metrics,
    RunCancelled,
    Warned,
)

HEARTBEAT_SECONDS = 10.0


class EventLog:
    """Appends events to a file; safe to use from several threads.

    >>> with EventLog(Path("events.jsonl")) as events:
    ...     events.emit(Log("Loading the model"))
    """

    def __init__(self, path: Path, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._seq = cut_broken_tail(path)
        self._file = path.open("a", encoding="utf-8")
        self._heartbeat = threading.Thread(
            target=self._send_heartbeats, args=(heartbeat_seconds,), name="heartbeat", daemon=True
        )
        self._heartbeat.start()

    def emit(self, event: Event) -> None:
        """Write one line and hand it to the operating system, so that a kill of this process loses nothing.

        Events for people are also printed: the output becomes the log, and is what you see when starting a run by hand.
        """
        with self._lock:
            self._seq += 1
            line = {"seq": self._seq, "at": round(time.time(), 3), "kind": event.kind, **storable(asdict(event))}
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
        if text := log_line(event):
            print(UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text), flush=True)

    def close(self) -> None:
        self._closing.set()
        self._heartbeat.join()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send_heartbeats(self, seconds: float) -> None:
        while not self._closing.wait(seconds):
            with suppress(OSError):  # e.g. the disk is briefly full; without later heartbeats the run would seem dead
                self.emit(Heartbeat(memory_mb=memory_in_use_mb()))


def log_line(event: Event) -> str:
    """A line for the log; empty for frequent events, and those printed otherwise (a failure's traceback)."""
    match event:
        case Log(message=message):
            return message
        case Warned(message=message, advice=advice):
            return f"Warning: {message} {advice}".rstrip()
        case AlarmRaised(step=step, message=message, advice=advice):
            return f"Alarm at step {step}: {message} {advice}".rstrip()
        case Metrics(step=step, values=values):
            return f"step {step}: " + ", ".join(
                f"{name} {value:.4g}" for name, value in values.items() if value is not None
            )
        case CheckpointSaved(path=path):
            return f"Saved {path}"
        case RunCancelled(checkpoint=checkpoint):
            return f"Stopped; resume from {checkpoint}" if checkpoint else "Stopped before there was anything to save"
        case Failed(message=message, advice=advice):
            return f"Failed: {message} {advice}".rstrip()
        case Finished():
            return "Finished"
    return ""


def cut_broken_tail(path: Path) -> int:
    """Drop a last line that a killed writer left unfinished. Returns the number of whole lines."""
    if not path.exists():
        return 0
    with path.open("rb+") as file:
        size, lines = 0, 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            size, lines = size + len(line), lines + 1
        file.truncate(size)
    return lines


UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""NUL and lone surrogates: failures may quote rows that contain them, but databases can't store them."""


def storable(value: Any) -> Any:
    """`value` with NaN and infinity, which JSON lacks, replaced by None, and unstorable characters by a replacement."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, str):
        return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {key: storable(item) for key, item in value.items()}
    return [storable(item) for item in value] if isinstance(value, list | tuple) else value


def memory_in_use_mb() -> float:
    """Resident memory of this process in MB, from /proc; 0 where there is none."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
