"""What a run says while it works: `events.jsonl`, one JSON object a line.

Every line carries `seq` (1, 2, 3… without gaps, over resumes too), `at` (seconds since 1970, UTC) and `kind`; the rest
are the fields of the class below with that kind. A reader keeps the byte offset it has reached, so that it can
be killed and go on where it was. The file is only ever appended to, in whole lines.
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
    setting: str = ""
    """The path of the one setting to resume with; empty where none would help."""
    value: bool | float | str | None = None
    """What to change it to."""


@dataclass(frozen=True)
class Tracked(Event):
    """The run's curves are shown elsewhere, too."""

    kind = "tracked"
    name: str
    """Of the tracker."""
    url: str = ""
    """Of the run's page there, if it has one on the web."""


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
