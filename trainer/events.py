"""What a run says while it works: `events.jsonl`, one JSON object a line.

Every line carries `seq` (1, 2, 3… without gaps, over resumes too), `at` (seconds since 1970, UTC) and `kind`; the rest
are the fields of the class below with that kind. A reader keeps the byte offset it has reached, so that it can
be killed and go on where it was. The file is only ever appended to, in whole lines.
"""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

HEARTBEAT_SECONDS = 10.0


@dataclass(frozen=True)
class Event:
    """One thing that happened in a run."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class Started(Event):
    """The model and the data are loaded and work begins (again, after a resume)."""

    kind = "started"
    total_steps: int
    """Optimizer steps of a training run, episodes of a rollout."""
    step: int = 0
    """Where it begins: above 0 after a resume."""
    trainable_parameters: int = 0
    total_parameters: int = 0
    memory_mb: float = 0.0
    """Resident memory of this process plus the accelerator memory it has allocated."""
    device: str = "cpu"
    pid: int = 0


@dataclass(frozen=True)
class Progress(Event):
    """So many of so many steps are done."""

    kind = "progress"
    step: int
    total: int


@dataclass(frozen=True)
class Metrics(Event):
    """Named numbers at a step. Names of evaluation metrics begin with `eval/`. NaN and infinity arrive as null."""

    kind = "metrics"
    step: int
    values: dict[str, float | None]


@dataclass(frozen=True)
class CheckpointSaved(Event):
    """A complete checkpoint is on disk."""

    kind = "checkpoint"
    step: int
    path: str
    """Relative to the run's folder."""


@dataclass(frozen=True)
class RolloutFinished(Event):
    """One episode ended and its trajectory is a line of the output file."""

    kind = "rollout"
    id: str
    task: str
    sample: int
    success: bool | None
    reward: float | None
    steps: int
    termination: str


@dataclass(frozen=True)
class Log(Event):
    """A line for people: what the run is doing now."""

    kind = "log"
    message: str


@dataclass(frozen=True)
class Warned(Event):
    """Something looks wrong but the run goes on."""

    kind = "warning"
    message: str
    advice: str = ""


@dataclass(frozen=True)
class AlarmRaised(Event):
    """A known way to go wrong has begun; see `trainer.alarms`."""

    kind = "alarm"
    step: int
    name: str
    message: str
    advice: str = ""


@dataclass(frozen=True)
class Heartbeat(Event):
    """The process lives. Sent every ten seconds by a thread of its own, so a long step does not look dead."""

    kind = "heartbeat"
    memory_mb: float = 0.0


@dataclass(frozen=True)
class Finished(Event):
    """Done: the same object is in `report.json`."""

    kind = "finished"
    report: dict[str, Any]


@dataclass(frozen=True)
class RunCancelled(Event):
    """Stopped on request. `checkpoint` is the folder to resume from, or "" where there is none."""

    kind = "cancelled"
    checkpoint: str = ""
    reason: str = ""
    """Why, where the run paused itself."""


@dataclass(frozen=True)
class Failed(Event):
    """Stopped by a failure."""

    kind = "failed"
    category: str
    """data, config, out_of_memory, server or crash."""
    message: str
    advice: str = ""
    details: str = ""
    """The traceback of a crash."""


EVENT_OF_KIND: dict[str, type[Event]] = {cls.kind: cls for cls in Event.__subclasses__()}
LAST_KINDS = frozenset({Finished.kind, RunCancelled.kind, Failed.kind})
"""After one of these the run is over; a resume adds a new `started`."""


class StampedEvent(NamedTuple):
    """An event with its place and time in the file."""

    seq: int
    at: float
    event: Event


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
        self._pulse = threading.Thread(target=self._beat, args=(heartbeat_seconds,), name="heartbeat", daemon=True)
        self._pulse.start()

    def emit(self, event: Event) -> None:
        """Write one line and hand it to the operating system, so that a kill of this process loses nothing.

        What people want to see is printed too: it becomes the log, and is all that one sees who starts a run by hand.
        """
        with self._lock:
            self._seq += 1
            line = {"seq": self._seq, "at": round(time.time(), 3), "kind": event.kind, **storable(asdict(event))}
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
        if words := in_words(event):
            print(UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", words), flush=True)

    def close(self) -> None:
        self._closing.set()
        self._pulse.join()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _beat(self, seconds: float) -> None:
        while not self._closing.wait(seconds):
            with suppress(OSError):  # a disk that is full for a moment: without a later beat the run would seem dead
                self.emit(Heartbeat(memory_mb=memory_in_use_mb()))


@dataclass
class EventReader:
    """Reads what has been added since the last time; an unfinished last line waits for its end."""

    path: Path
    offset: int = 0
    """Bytes read so far: store it to go on from here in another process."""

    def new_events(self) -> Iterator[StampedEvent]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.offset += len(line)
                yield event_from_json(json.loads(line))


def event_from_json(line: dict[str, Any]) -> StampedEvent:
    """The event on one line. Fields that this version does not know are ignored; an unknown kind is a ValueError."""
    cls = EVENT_OF_KIND.get(line.get("kind", ""))
    if cls is None:
        raise ValueError(f"Got an event of kind {line.get('kind')!r}, expected one of {sorted(EVENT_OF_KIND)}.")
    known = {each.name for each in fields(cls)}
    return StampedEvent(line["seq"], line["at"], cls(**{key: line[key] for key in line.keys() & known}))


def in_words(event: Event) -> str:
    """A line for the log; empty for what happens too often, or is printed in another way (a failure's traceback)."""
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
        whole, lines = 0, 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole, lines = whole + len(line), lines + 1
        file.truncate(whole)
    return lines


UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""NUL and lone surrogates: a row may hold them, and a failure quote it; no database keeps them."""


def storable(value: Any) -> Any:
    """JSON has no NaN: `value` with each NaN and infinity replaced by None, and what no text should hold by a mark."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, str):
        return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {key: storable(each) for key, each in value.items()}
    return [storable(each) for each in value] if isinstance(value, list | tuple) else value


def memory_in_use_mb() -> float:
    """Resident memory of this process in MB, from /proc; 0 where there is none."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
