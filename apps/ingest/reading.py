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
from apps.ingest.records import BadParts, BadRow, Outcome, StepRecord, TrajectoryRecord
from contract import jsontext

T = TypeVar("T")

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
        for place, record in enumerate(format.read(given, filename)):
            is_judged = outcomes and (place == 0 or record.part is not None)  # others are of agents that it started
            if outcomes and is_judged:
                outcomes.tell(record, row.file)
            self.warnings += _without_odd_rewards(record)
            _name_task(record)
            original = body if record.part is None else jsontext.dumps(record.part)
            asks = outcomes and is_judged and record.success is None
            yield Run(record, original, outcomes.verdict(record, row.file) if outcomes and asks else None)


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
