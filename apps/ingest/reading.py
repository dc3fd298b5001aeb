"""Turns a record of an upload into trajectories. Those without a task get one of their own, and rewards that aren't finite numbers are removed."""

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
from contract.task_parts import part_of

T = TypeVar("T")

TIMES = 25
"""Limit for the size of a record's trajectories together, as a multiple of the record's: each of them repeats what they share."""
MIN_ROOM, MAX_ROOM = 32 << 20, 256 << 20
"""Bounds of that limit. For very large records it's MAX_TIMES their own size, if that's more."""
MAX_TIMES = 4
MAX_TRAJECTORIES = 100_000
"""Per record, since they're in memory together."""
FEW_TRAJECTORIES, BYTES_A_TRAJECTORY = 200, 10
"""Every record may hold this many, plus one for each BYTES_A_TRAJECTORY of its bytes: pairing all answers to a prompt multiplies them."""
COPIES = 20
"""How many trajectories keep the same original, since one trace can have thousands of chats."""
KEPT_ELSEWHERE = jsontext.dumps(
    {"original": f"It's kept with the first {COPIES} of the trajectories that were read from the same record."}
)

logger = logging.getLogger(__name__)


class RecognizedRecord(NamedTuple):
    """A raw record and the format that reads it."""

    row: RawRow
    format: Format | None
    """None only if the row has a problem."""
    filename: str
    outcomes: Outcomes | None = None
    """For archives: the outcomes in its reports."""


class ReadTrajectory(NamedTuple):
    """A trajectory of a record."""

    record: TrajectoryRecord
    original: bytes
    """The JSON that it was read from."""
    verdict: bool | None
    """Success according to a report beside the trajectory, if the trajectory itself doesn't give it. Not part of its content."""


class Verdict(NamedTuple):
    """A report's result for an instance."""

    row: RawRow
    instance: str
    is_resolved: bool


class Reading:
    """Reads a record once. Errors are stored, not raised."""

    def __init__(self, match: RecognizedRecord) -> None:
        self._format_match = match
        self.verdict: Verdict | None = None
        self.refusal: BadRow | None = None
        """Why the record, or with BadParts some of its trajectories, couldn't be read."""
        self.warnings: list[str] = []
        """What was left out of trajectories that were read."""

    def collect(self, make: Callable[[ReadTrajectory], T]) -> list[T]:
        """Apply `make` to each trajectory of the record and collect the results."""
        results: list[T] = []
        row, format, filename, _ = self._format_match
        if format is None:
            self.refusal = BadRow(
                row.problem, "Files of trajectories, such as .json, .jsonl, or .traj, in a format that is known."
            )
            return results
        try:
            if row.problem:
                raise BadRow(row.problem, f"One record: {format.shape}.")
            results.extend(map(make, self._trajectories(format)))
        except BadRow as refusal:
            self.refusal = refusal
        except jsontext.UnreadableJSON as error:
            self.refusal = BadRow(str(error), "One JSON value in UTF-8.")
        except Exception as error:  # a bug in a format must not fail the other records
            logger.exception("Record %s of %s broke the reader of %s", row.position, filename, format.name)
            reason = f"It couldn't be read as {format.title} ({type(error).__name__}: {error})."
            self.refusal = BadRow(reason, f"One record: {format.shape}.")
        return results if self.refusal is None or isinstance(self.refusal, BadParts) else []

    def _trajectories(self, format: Format) -> Iterator[ReadTrajectory]:
        row, _, filename, outcomes = self._format_match
        body = row.body.strip()
        entry = jsontext.loads(body)
        if format.judges:
            self.verdict = Verdict(row, *format.judges(entry))
        room, originals = _Budget(len(body)), _Originals(body)
        for index, record in enumerate(format.read(entry, filename)):
            is_judged = outcomes and record.whole is None and (index == 0 or record.part is not None)
            if outcomes and is_judged:
                outcomes.complete(record, row.file)
            self.warnings += _without_nonfinite_rewards(record)
            _name_task(record)
            if record.whole:
                _name_task(record.whole)
                record.task = part_of(record.whole.task, record.task)
            original = originals.of(record)
            if index:
                room.admit(record, original)
            asks = outcomes and is_judged and record.success is None
            yield ReadTrajectory(record, original, outcomes.verdict(record, row.file) if outcomes and asks else None)


class _Budget:
    """How many more trajectories a record may produce, and their total bytes."""

    def __init__(self, size: int) -> None:
        self.trajectories = min(MAX_TRAJECTORIES, max(FEW_TRAJECTORIES, size // BYTES_A_TRAJECTORY))
        self.bytes = max(MIN_ROOM, min(TIMES * size, MAX_ROOM), MAX_TIMES * size)
        self.taken = 1

    def admit(self, record: TrajectoryRecord, original: bytes) -> None:
        """Count one more after the first. Raises BadParts."""
        self.taken += 1
        self.bytes -= len(jsontext.dumps(record.to_json())) + (len(original) if record.part is not None else 0)
        if self.taken <= self.trajectories and self.bytes >= 0:
            return
        reason = (
            f"It holds more than {self.taken - 1:,} trajectories, or they repeat their shared content so often that they'd take many times "
            "the record's own size."
        )
        raise BadParts(reason, "Fewer trajectories in one record. The first ones were imported.")


class _Originals:
    """The JSON that each trajectory of a record was read from."""

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
    """The trajectory on a line written by one of our own processes. Raises UnreadableJSON or BadRow."""
    [record] = named("retrace").read(jsontext.loads(line), "")
    _without_nonfinite_rewards(record)
    return record


def _without_nonfinite_rewards(record: TrajectoryRecord) -> list[str]:
    """Remove rewards that can't be trained on; returns a warning that lists them."""
    not_finite: list[tuple[str, StepRecord | Outcome]] = [
        (f"step {index}", step) for index, step in enumerate(record.steps) if _is_nonfinite(step.reward)
    ]
    if _is_nonfinite(record.reward):
        not_finite.append(("the run", record.outcome))
    warnings = [
        f"The reward of {step_name} is {_reward_text(holder.reward)}; it is kept without a reward."
        for step_name, holder in not_finite[:1]
    ]
    more = [f"So are {len(not_finite) - 1:,} more of its rewards."] if len(not_finite) > 1 else []
    for _, holder in not_finite:
        holder.reward = None
    return [" ".join([*warnings, *more])] if not_finite else []


def _reward_text(reward: float | None) -> str:
    return "NaN" if reward is None or math.isnan(reward) else "infinite" if reward > 0 else "minus infinity"


def _is_nonfinite(reward: float | None) -> bool:
    return reward is not None and not math.isfinite(reward)


def _name_task(record: TrajectoryRecord) -> None:
    """Give a trajectory without a prompt a task of its own, so that such trajectories don't share one. The key is derived from its content,
    so it's stable across imports."""
    task = record.task
    if task.key:
        return
    if task.instruction.strip():
        task.key = prompt_key([{"role": "user", "content": task.instruction}])
    else:
        task.key = f"run-{record.content_hash().hex()[:16]}"
