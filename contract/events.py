"""The events of a running process: `events.jsonl`, one JSON object per line.

Every line carries `seq` (1, 2, 3… without gaps, even across resumes), `at` (seconds since 1970, UTC) and `kind`; the rest
are the fields of the class below with that kind. A reader stores the byte offset it has reached, so that it can
be killed and continue from there. The file is only appended to, in whole lines.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple


@dataclass(frozen=True)
class Event:
    """One thing that happened in a run."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    kind: ClassVar[str]


@dataclass(frozen=True)
class Started(Event):
    """The model and the data are loaded and work starts (or restarts, after a resume)."""

    kind = "started"
    total_steps: int
    """Optimizer steps of a training run, episodes of a rollout."""
    step: int = 0
    """The first step: above 0 after a resume."""
    trainable_parameters: int = 0
    total_parameters: int = 0
    memory_mb: float = 0.0
    """Resident memory of this process plus the accelerator memory it has allocated."""
    device: str = "cpu"
    pid: int = 0


@dataclass(frozen=True)
class Progress(Event):
    """Steps done, out of the total."""

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
    """A known failure mode was detected; see `trainer.alarms`."""

    kind = "alarm"
    step: int
    name: str
    message: str
    advice: str = ""
    setting: str = ""
    """The path of the setting to change before resuming; empty if none would help."""
    value: bool | float | str | None = None
    """Its suggested value."""


@dataclass(frozen=True)
class Tracked(Event):
    """The run's curves are also logged to an external tracker."""

    kind = "tracked"
    name: str
    """Name of the tracker."""
    url: str = ""
    """URL of the run's page there, if it has one."""


@dataclass(frozen=True)
class Heartbeat(Event):
    """The process is alive. A separate thread sends this every ten seconds, so that a long step doesn't look dead."""

    kind = "heartbeat"
    memory_mb: float = 0.0


@dataclass(frozen=True)
class Finished(Event):
    """The run is done. `report.json` holds the same object."""

    kind = "finished"
    report: dict[str, Any]


@dataclass(frozen=True)
class RunCancelled(Event):
    """Stopped on request. `checkpoint` is the folder to resume from, or "" if there is none."""

    kind = "cancelled"
    checkpoint: str = ""
    reason: str = ""
    """The reason, if the run paused itself."""


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
"""The run is over after one of these; a resume appends a new `started`."""


class StampedEvent(NamedTuple):
    """An event with its sequence number and time."""

    seq: int
    at: float
    event: Event


@dataclass
class EventReader:
    """Reads events appended since the last call; an incomplete last line is left for the next one."""

    path: Path
    offset: int = 0
    """Bytes read so far: store it to continue from here in another process."""

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
    """The event on one line. Unknown fields are ignored; an unknown kind raises ValueError."""
    cls = EVENT_OF_KIND.get(line.get("kind", ""))
    if cls is None:
        raise ValueError(f"Got an event of kind {line.get('kind')!r}, expected one of {sorted(EVENT_OF_KIND)}.")
    field_names = {field.name for field in fields(cls)}
    return StampedEvent(line["seq"], line["at"], cls(**{key: line[key] for key in line.keys() & field_names}))
