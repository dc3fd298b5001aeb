"""A record of an upload becomes trajectories: each with a task of its own where the record says of none, and with rewards that are numbers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from apps.ingest.files.raw_records import RawRow
from apps.ingest.formats import Format, named
from apps.ingest.normalization.evaluation_reports import Outcomes
from apps.ingest.normalization.fields import prompt_key
from apps.ingest.records import BadParts, BadRow, Json, Outcome, StepRecord, TrajectoryRecord
from contract import jsontext

T = TypeVar("T")

TIMES = 25
"""How many times as many bytes as a record has its trajectories may have together: what they share is kept with each of them."""
LEAST_ROOM, MOST_ROOM = 32 << 20, 256 << 20
"""So much a small record's may have, and so much a large one's, unless it's less than MOST_TIMES its own size."""
MOST_TIMES = 4
MOST_TRAJECTORIES = 100_000
"""Of one record: they're in memory together."""
FEW_TRAJECTORIES, BYTES_A_TRAJECTORY = 200, 10
"""So many any record may hold, and one more for each so many of its bytes: the answers of a prompt that are paired with one another multiply."""
COPIES = 20
"""How many trajectories keep the same original: one trace can have thousands of chats."""
KEPT_ELSEWHERE = jsontext.dumps(
    {"original": f"It's kept with the first {COPIES} of the trajectories that were read from the same record."}
)

logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """A record as written, and who can read it."""

    row: RawRow
    format: Format | None
    """None only where the row has a problem."""
    filename: str
    outcomes: Outcomes | None = None
    """In an archive, what its reports say of its trajectories."""


class Run(NamedTuple):
    """A trajectory of a record."""

    record: TrajectoryRecord
    original: bytes
    """What it was read from, as JSON."""
    verdict: bool | None
    """Whether a report beside the trajectory says that it was a success, where the trajectory itself does not say. No part of its content."""


class Verdict(NamedTuple):
    """What a record of a report says of an instance."""

    row: RawRow
    instance: str
    is_resolved: bool


class Reading:
    """Reads a record once. What is wrong with it is then known, not raised."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self.verdict: Verdict | None = None
        self.refusal: BadRow | None = None
        """Why the record, or with BadParts some of its trajectories, can't be read."""
        self.warnings: list[str] = []
        """What was left out of trajectories that were read."""

    def each(self, make: Callable[[Run], T]) -> list[T]:
        """What `make` makes of each trajectory of the record that counts."""
        made: list[T] = []
        row, format, filename, _ = self._found
        if format is None:
            self.refusal = BadRow(
                row.problem, "Files of trajectories, such as .json, .jsonl, or .traj, in a format that is known."
            )
            return made
        try:
            if row.problem:
                raise BadRow(row.problem, f"One record: {format.shape}.")
            made.extend(map(make, self._runs(format)))
        except BadRow as refusal:
            self.refusal = refusal
        except jsontext.UnreadableJSON as error:
            self.refusal = BadRow(str(error), "One JSON value in UTF-8.")
        except Exception as error:  # a record so odd that its format stumbles must not take the others with it
            logger.exception("Record %s of %s broke the reader of %s", row.position, filename, format.name)
            reason = f"It couldn't be read as {format.title} ({type(error).__name__}: {error})."
            self.refusal = BadRow(reason, f"One record: {format.shape}.")
        return made if self.refusal is None or isinstance(self.refusal, BadParts) else []

    def _runs(self, format: Format) -> Iterator[Run]:
        row, _, filename, outcomes = self._found
        body = row.body.strip()
        given = jsontext.loads(body)
        if format.judges:
            self.verdict = Verdict(row, *format.judges(given))
        room, originals = _Room(len(body)), _Originals(body)
        for place, record in enumerate(format.read(given, filename)):
            is_judged = outcomes and (place == 0 or record.part is not None)  # others are of agents that it started
            if outcomes and is_judged:
                outcomes.tell(record, row.file)
            self.warnings += _without_odd_rewards(record)
            _name_task(record)
            original = originals.of(record)
            if place:
                room.take(record, original)
            asks = outcomes and is_judged and record.success is None
            yield Run(record, original, outcomes.verdict(record, row.file) if outcomes and asks else None)


class _Room:
    """How many more trajectories a record may become, and how many bytes they may have."""

    def __init__(self, size: int) -> None:
        self.trajectories = min(MOST_TRAJECTORIES, max(FEW_TRAJECTORIES, size // BYTES_A_TRAJECTORY))
        self.bytes = max(LEAST_ROOM, min(TIMES * size, MOST_ROOM), MOST_TIMES * size)
        self.taken = 1

    def take(self, record: TrajectoryRecord, original: bytes) -> None:
        """Count one more after the first. Raises BadParts."""
        self.taken += 1
        self.bytes -= len(jsontext.dumps(record.to_json())) + (len(original) if record.part is not None else 0)
        if self.taken <= self.trajectories and self.bytes >= 0:
            return
        reason = (
            f"It holds more than {self.taken - 1:,} trajectories, or they repeat what they share so often that they'd take many times "
            "the room that it takes itself."
        )
        raise BadParts(reason, "Fewer trajectories in one record. The first of them came in.")


class _Originals:
    """What each trajectory of a record was read from, as JSON."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.part: Json = None
        self.original = body
        self.copies = 0

    def of(self, record: TrajectoryRecord) -> bytes:
        if record.part is not self.part:
            self.part, self.copies = record.part, 0
            self.original = self.body if record.part is None else jsontext.dumps(record.part)
        self.copies += 1
        return self.original if self.copies <= COPIES else KEPT_ELSEWHERE


def read_line(line: bytes) -> TrajectoryRecord:
    """The trajectory of a line that a process of this product wrote. Raises UnreadableJSON or BadRow."""
    [record] = named("retrace").read(jsontext.loads(line), "")
    _without_odd_rewards(record)
    return record


def _without_odd_rewards(record: TrajectoryRecord) -> list[str]:
    """Take out rewards that are no numbers one could learn from; answers what they were."""
    odd: list[tuple[str, StepRecord | Outcome]] = [
        (f"step {place}", step) for place, step in enumerate(record.steps) if _is_odd(step.reward)
    ]
    if _is_odd(record.reward):
        odd.append(("the run", record.outcome))
    told = [
        f"The reward of {where} is {_spelled(holder.reward)}; it is kept without a reward." for where, holder in odd[:1]
    ]
    more = [f"So are {len(odd) - 1:,} more of its rewards."] if len(odd) > 1 else []
    for _, holder in odd:
        holder.reward = None
    return [" ".join([*told, *more])] if odd else []


def _spelled(reward: float | None) -> str:
    return "NaN" if reward is None or math.isnan(reward) else "infinite" if reward > 0 else "minus infinity"


def _is_odd(reward: float | None) -> bool:
    return reward is not None and not math.isfinite(reward)


def _name_task(record: TrajectoryRecord) -> None:
    """Trajectories of which nothing says what was asked don't become one task: each gets its own, the same whenever the same trajectory comes again."""
    task = record.task
    if task.key:
        return
    if task.instruction.strip():
        task.key = prompt_key([{"role": "user", "content": task.instruction}])
    else:
        task.key = f"run-{record.content_hash().hex()[:16]}"
