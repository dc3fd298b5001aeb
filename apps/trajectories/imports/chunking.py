"""From a file to chunks of records that are ready to be written. Touches no database, so it can run in another thread or process."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from django.conf import settings

from apps.ingest.files.raw_records import EXCERPT, RawRow
from apps.ingest.files.source import UnreadableFile
from apps.ingest.limits import Limits
from apps.ingest.records import BadParts, BadRow
from apps.ingest.upload import Found, Upload
from apps.trajectories.imports.preparing import Prepared, prepare
from apps.trajectories.outlines import visible
from contract import jsontext

CHUNK_BYTES = 4 << 20
"""Encoded bytes written in one transaction: large enough that its cost vanishes, small enough to lose nothing that hurts."""

CHUNK_ROWS = 2000

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Rejected:
    """A record that cannot go in, or not all of it: where it is, why, and how it begins."""

    position: int
    line: int
    reason: str
    expected: str
    excerpt: str


class Verdict(NamedTuple):
    """What a record of a report says of an instance."""

    row: RawRow
    instance: str
    is_resolved: bool


@dataclass(slots=True)
class Chunk:
    """Consecutive records of a file: what they became, and where the next chunk starts."""

    format: str
    start: int
    end: int
    bytes_read: int = 0
    prepared: list[tuple[Prepared, RawRow]] = field(default_factory=list)
    """With each its record's beginning."""
    verdicts: list[Verdict] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size >= CHUNK_BYTES or self.end - self.start >= CHUNK_ROWS

    def add(self, prepared: list[Prepared], row: RawRow) -> None:
        """Take what a record became."""
        row = row._replace(body=row.body[:EXCERPT])
        self.prepared += [(item, row) for item in prepared]
        self.size += sum(item.size for item in prepared)

    def reject(self, row: RawRow, reason: str, expected: str) -> None:
        """Keep a record that cannot go in, or not all of it."""
        if row.file:
            reason = f"{row.file}: {reason}"
        for known in self.rejected:
            if known.position == row.position:  # another of its runs
                known.reason = f"{known.reason} {visible(reason)}"[:2000]
                return
        self.rejected.append(
            Rejected(
                position=row.position,
                line=row.line,
                reason=visible(reason)[:2000],
                expected=visible(expected)[:2000],
                excerpt=visible(row.body[:EXCERPT].decode("utf-8", "backslashreplace")).strip(),
            )
        )
        self.size += EXCERPT


def chunks(file: IO[bytes], filename: str, start: int = 0) -> Generator[Chunk, None, None]:
    """The records of a file from the place `start` on, read and prepared; those of a chunk have one format.

    Raises UnreadableFile or UnknownFormat.
    """
    limits = Limits(unpacked=settings.IMPORT_MAX_UNPACKED_BYTES, record=settings.IMPORT_MAX_RECORD_BYTES)
    upload = Upload(file, filename, limits)
    chunk = Chunk("", start, start)
    broken: UnreadableFile | None = None
    records = itertools.islice(upload, start, None)
    while True:
        try:
            found = next(records, None)
        except UnreadableFile as error:  # what could be read before it broke goes in first
            broken, found = error, None
        if found is None:
            break
        is_other = found.format is not None and found.format.name != (chunk.format or found.format.name)
        if is_other or chunk.is_full:
            chunk.bytes_read = upload.bytes_read
            yield chunk
            chunk = Chunk("" if is_other else chunk.format, chunk.end, chunk.end)
        _take(found, chunk)
    chunk.bytes_read = upload.bytes_read
    yield chunk
    if broken:
        raise broken


def _take(found: Found, chunk: Chunk) -> None:
    """Add one record to the chunk, as trajectories or as a rejected row."""
    row, format, filename, outcomes = found
    chunk.end = row.position + 1
    if format is None:
        chunk.reject(row, row.problem, "Files of runs, such as .json, .jsonl or .traj, in a format that is known.")
        return
    chunk.format = format.name
    body = row.body.strip()
    prepared: list[Prepared] = []
    try:
        if row.problem:
            raise BadRow(row.problem, f"One record: {format.shape}.")
        given = jsontext.loads(body)
        if format.judges:
            chunk.verdicts.append(Verdict(row, *format.judges(given)))
        for place, record in enumerate(format.read(given, filename)):
            is_judged = outcomes and (place == 0 or record.part is not None)  # others are of agents that it started
            if outcomes and is_judged:
                outcomes.tell(record, row.file)
            item = prepare(record, body if record.part is None else jsontext.dumps(record.part))
            if outcomes and is_judged and record.success is None:
                item.verdict = outcomes.verdict(record, row.file)
            prepared.append(item)
    except BadRow as refusal:
        chunk.reject(row, refusal.reason, refusal.expected)
        if isinstance(refusal, BadParts):
            chunk.add(prepared, row)
    except jsontext.UnreadableJSON as error:
        chunk.reject(row, str(error), "One JSON value in UTF-8.")
    except Exception as error:  # a record so odd that its format stumbles must not take the others with it
        logger.exception("Record %s of %s broke the reader of %s", row.position, filename, format.name)
        reason = f"It could not be read as {format.title} ({type(error).__name__}: {error})."
        chunk.reject(row, reason, f"One record: {format.shape}.")
    else:
        chunk.add(prepared, row)
