"""From a file to chunks of records that are ready to be written. Touches no database, so it can run in another thread or process."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import IO

from django.conf import settings

from apps.ingest.files.raw_records import EXCERPT, RawRow
from apps.ingest.files.source import UnreadableFile
from apps.ingest.limits import Limits
from apps.ingest.reading import Found, Reading, Verdict
from apps.ingest.upload import Upload
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.outlines import visible

CHUNK_BYTES = 4 << 20
"""Encoded bytes written in one transaction: large enough that its cost vanishes, small enough to lose nothing that hurts."""

CHUNK_ROWS = 2000


@dataclass(slots=True)
class Rejected:
    """A record that cannot go in, or not all of it: where it is, why, and how it begins."""

    position: int
    line: int
    reason: str
    expected: str
    excerpt: str


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
    warnings: list[str] = field(default_factory=list)
    """What was left out of records that came in, each with its place."""
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
    row, format = found.row, found.format
    chunk.end = row.position + 1
    if format:
        chunk.format = format.name
    reading = Reading(found)
    chunk.add(reading.each(lambda run: prepare(*run)), row)
    if reading.verdict:
        chunk.verdicts.append(reading.verdict)
    if reading.refusal:
        chunk.reject(row, reading.refusal.reason, reading.refusal.expected)
    chunk.warnings += [_placed(row, warning) for warning in reading.warnings]


def _placed(row: RawRow, warning: str) -> str:
    where = f"line {row.line:,}" if row.line else "the file"
    return visible(f"{row.file}, {where}: {warning}" if row.file else f"{where.capitalize()}: {warning}")
