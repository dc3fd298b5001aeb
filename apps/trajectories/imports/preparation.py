"""Prepares records for writing, chunk by chunk: hashed, outlined, and encoded for COPY in PostgreSQL's binary format.

None of this needs the database, so it happens outside the transaction, in a separate thread or process.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import IO, Any
from uuid import UUID

import zstandard
from django.conf import settings

from apps.common.ids import new_id
from apps.ingest.files.raw_records import EXCERPT, RawRow
from apps.ingest.files.source import Limits, UnreadableFile
from apps.ingest.reading import Reading, RecognizedRecord, Verdict
from apps.ingest.upload import Upload
from apps.trajectories.comparison import actions
from apps.trajectories.outlines import Outline, clip, outline, tools_called, visible
from contract import jsontext
from contract.trajectory import Task as TaskRecord
from contract.trajectory import Trajectory as TrajectoryRecord
from contract.values import number

COMPRESSION = 1
"""zstd level for originals: on logs, higher levels cost several times as much for 10% less."""

_of_thread = threading.local()
"""One compressor per thread: concurrent use of one fails or corrupts."""

STEP_COLUMNS = (
    *("trajectory_id", "index", "is_error", "done", "context_chars", "result_chars"),
    *("reward", "seconds", "prompt_tokens", "completion_tokens"),
    *("kind", "tool", "headline", "result", "action", "context", "message", "info"),
)

_NULL = struct.pack("!i", -1)
_STEP_FIXED = struct.Struct("!h i16s ii i? i? ii ii")
_ORIGINAL_FIXED = struct.Struct("!h i16s i")
_length = struct.Struct("!i").pack
_float8 = struct.Struct("!id").pack
_int4 = struct.Struct("!ii").pack
_EMPTY_OBJECT = _length(2) + b"{}"


MAX_TAGS = 200
"""Per trajectory; pages show all of them, and lists count them. The original record keeps the rest."""


@dataclass(slots=True)
class Prepared:
    """A record ready to be written: its light columns, and the rest encoded."""

    id: UUID
    task: TaskRecord
    policy: str | None
    columns: dict[str, Any]
    steps: bytes
    original: bytes
    verdict: bool | None = None
    """Success according to a report beside the trajectory, if the trajectory itself doesn't give it. Not part of its content."""

    @property
    def size(self) -> int:
        return len(self.steps) + len(self.original)


def prepare(
    record: TrajectoryRecord, original: bytes, verdict: bool | None = None, *, identifier: UUID | None = None
) -> Prepared:
    """Hash, outline, and encode one record, for a new trajectory or an existing one.

    Raises UnreadableJSON if it's nested too deeply to be stored.
    """
    identifier = identifier or new_id()
    outlines = outline(record)
    acted = acted_in(record)
    step_seconds = [step.seconds for step in record.steps if step.seconds is not None]
    written = [step.completion_tokens for step in record.steps if step.completion_tokens is not None]
    return Prepared(
        id=identifier,
        task=record.task,
        policy=clip(record.policy, 200) if record.policy else None,
        columns={
            "external_id": clip(record.id, 300),
            "reward": record.reward,
            "success": record.success,
            "termination": clip(record.termination, 100),
            "step_count": len(record.steps),
            "error_count": sum(line.is_error for line in outlines),
            "token_count": sum(written) if written else None,
            "seconds": sum(step_seconds) if step_seconds else number(record.info.get("seconds")),
            "tags": [clip(tag, 100) for tag in record.tags[:MAX_TAGS]],
            "called": tools_called(line.tool for line in outlines),
            "tools": jsontext.dumps(record.tools).decode(),
            "closing": jsontext.dumps(record.closing).decode(),
            "info": jsontext.dumps(record.info).decode(),
            "content_hash": record.content_hash(),
            "course": actions.course_of(record, acted),
        },
        steps=_encode_steps(identifier.bytes, record, outlines, acted),
        original=_encode_original(identifier.bytes, original),
        verdict=verdict,
    )


def acted_in(record: TrajectoryRecord) -> list[bytes]:
    """The digest of each step's action."""
    return [actions.digest_of(step.message, step.info) for step in record.steps]


def unpack_original(body: bytes | memoryview) -> bytes:
    """The record as it was imported, from `Original.body`."""
    # The size comes from the frame header, which `prepare` wrote, never an uploader.
    return zstandard.ZstdDecompressor().decompress(bytes(body))


def _encode_steps(identifier: bytes, record: TrajectoryRecord, outlines: list[Outline], acted: list[bytes]) -> bytes:
    parts: list[bytes] = []
    columns = len(STEP_COLUMNS)
    for index, (step, line, act) in enumerate(zip(record.steps, outlines, acted, strict=True)):
        info = {**step.info, "error": step.error} if step.error else step.info
        parts += (
            _STEP_FIXED.pack(
                *(columns, 16, identifier, 4, index, 1, line.is_error, 1, step.done),
                *(4, min(line.context_chars, 0x7FFFFFFF), 4, min(line.result_chars, 0x7FFFFFFF)),
            ),
            _NULL if step.reward is None else _float8(8, step.reward),
            _NULL if step.seconds is None else _float8(8, step.seconds),
            _NULL if step.prompt_tokens is None else _int4(4, step.prompt_tokens),
            _NULL if step.completion_tokens is None else _int4(4, step.completion_tokens),
        )
        for text in (line.kind, line.tool, line.headline, line.result):
            encoded = text.encode()
            parts += (_length(len(encoded)), encoded)
        context, message = jsontext.dumps(step.context), jsontext.dumps(step.message)
        parts += (_length(actions.DIGEST_BYTES), act)
        parts += (_length(len(context)), context, _length(len(message)), message)
        if info:
            encoded = jsontext.dumps(info)
            parts += (_length(len(encoded)), encoded)
        else:
            parts.append(_EMPTY_OBJECT)
    return b"".join(parts)


def _encode_original(identifier: bytes, original: bytes) -> bytes:
    compressor = getattr(_of_thread, "compressor", None)
    if compressor is None:
        compressor = _of_thread.compressor = zstandard.ZstdCompressor(level=COMPRESSION)
    body = compressor.compress(original)
    return _ORIGINAL_FIXED.pack(2, 16, identifier, len(body)) + body


CHUNK_BYTES = 4 << 20
"""Encoded bytes written per transaction: large enough to make its overhead negligible, small enough that losing one doesn't matter."""

CHUNK_ROWS = 2000


@dataclass(slots=True)
class Rejected:
    """A record that can't be imported, or only partly: its position, the reason, and its beginning."""

    position: int
    line: int
    reason: str
    expected: str
    excerpt: str


@dataclass(slots=True)
class Chunk:
    """Consecutive records of a file: what was read from them, and where the next chunk starts."""

    format: str
    start: int
    end: int
    bytes_read: int = 0
    prepared: list[tuple[Prepared, RawRow]] = field(default_factory=list)
    """Each with the beginning of its record."""
    verdicts: list[Verdict] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What was left out of imported records, each with its location."""
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size >= CHUNK_BYTES or self.end - self.start >= CHUNK_ROWS

    def add(self, prepared: list[Prepared], row: RawRow) -> None:
        """Add the trajectories of a record."""
        row = row._replace(body=row.body[:EXCERPT])
        self.prepared += [(item, row) for item in prepared]
        self.size += sum(item.size for item in prepared)

    def reject(self, row: RawRow, reason: str, expected: str) -> None:
        """Add a record that can't be imported, or only partly."""
        if row.file:
            reason = f"{row.file}: {reason}"
        for earlier in self.rejected:
            if earlier.position == row.position:  # another trajectory of the same record
                earlier.reason = f"{earlier.reason} {visible(reason)}"[:2000]
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
    """The records of a file from position `start` on, read and prepared; all records in a chunk have the same format.

    Raises UnreadableFile or UnknownFormat.
    """
    limits = Limits(unpacked=settings.IMPORT_MAX_UNPACKED_BYTES, record=settings.IMPORT_MAX_RECORD_BYTES)
    upload = Upload(file, filename, limits)
    chunk = Chunk("", start, start)
    broken: UnreadableFile | None = None
    records = itertools.islice(upload, start, None)
    while True:
        try:
            record = next(records, None)
        except UnreadableFile as error:  # what could be read before it broke is imported first
            broken, record = error, None
        if record is None:
            break
        is_other = record.format is not None and record.format.name != (chunk.format or record.format.name)
        if is_other or chunk.is_full:
            chunk.bytes_read = upload.bytes_read
            yield chunk
            chunk = Chunk("" if is_other else chunk.format, chunk.end, chunk.end)
        _add_record(record, chunk)
    chunk.bytes_read = upload.bytes_read
    yield chunk
    if broken:
        raise broken


def _add_record(record: RecognizedRecord, chunk: Chunk) -> None:
    """Add one record to the chunk, as trajectories or as a rejected row."""
    row, format = record.row, record.format
    chunk.end = row.position + 1
    if format:
        chunk.format = format.name
    reading = Reading(record)
    chunk.add(reading.collect(lambda run: prepare(*run)), row)
    if reading.verdict:
        chunk.verdicts.append(reading.verdict)
    if reading.refusal:
        chunk.reject(row, reading.refusal.reason, reading.refusal.expected)
    chunk.warnings += [located(row, warning) for warning in reading.warnings]


def located(row: RawRow, warning: str) -> str:
    """The warning with its place in the file."""
    location = f"line {row.line:,}" if row.line else "the file"
    return visible(f"{row.file}, {location}: {warning}" if row.file else f"{location.capitalize()}: {warning}")
