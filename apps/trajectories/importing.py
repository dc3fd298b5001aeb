"""Brings an uploaded file in, the same way for the browser, the command and the API.

Records are read and prepared in a thread, a few megabytes ahead, while the chunk before is being written. A chunk is one transaction: its
trajectories, its rejected rows, the counts and the position move together. So an import that is killed anywhere goes on where
it stopped, and a second worker on the same batch can write nothing.
"""

from __future__ import annotations

import errno
import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillReading
from dataclasses import dataclass, field
from typing import IO
from uuid import UUID

import psycopg.errors
from django.db import DataError, InterfaceError, OperationalError, transaction
from django.db.models import F
from django.utils.timezone import now

from apps.common.commits import unawaited
from apps.common.leases import Superseded, lease
from apps.trajectories import jsontext
from apps.trajectories.claiming import claim, fail, finish, renew, this_worker
from apps.trajectories.copying import Copied, Origin, copy_in
from apps.trajectories.formats import Format, UnknownFormat
from apps.trajectories.models import ImportBatch, RejectedRow
from apps.trajectories.outlines import visible
from apps.trajectories.preparing import Prepared, prepare
from apps.trajectories.reading import UnreadableFile
from apps.trajectories.recognising import recognise_file
from apps.trajectories.records import BadParts, BadRow
from apps.trajectories.splitting import EXCERPT, RawRow
from apps.trajectories.uploading import discard

CHUNK_BYTES = 4 << 20
"""Encoded bytes written in one transaction: large enough that its cost vanishes, small enough to lose nothing that hurts."""

CHUNK_ROWS = 2000

MOST_REJECTED = 100_000
"""Rejected rows after which a file is plainly something else."""

KEPT = "What came before is in, and the import can go on from there."
NO_ROOM = f"There is no room left on the server's disk. Free some space, then go on. {KEPT}"

Watcher = Callable[[ImportBatch], None]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Chunk:
    """Consecutive records of a file: what they became, and where the next chunk starts."""

    format: str
    start: int
    end: int
    bytes_read: int = 0
    prepared: list[tuple[Prepared, RawRow]] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size >= CHUNK_BYTES or self.end - self.start >= CHUNK_ROWS

    def add(self, prepared: list[Prepared], row: RawRow) -> None:
        """Take what a record became."""
        self.prepared += [(item, row) for item in prepared]
        self.size += sum(item.size for item in prepared)

    def reject(self, batch: ImportBatch, row: RawRow, reason: str, expected: str) -> None:
        """Keep a record that cannot go in, or not all of it: where it is, why, and how it begins."""
        for known in self.rejected:
            if known.position == row.position:  # another of its runs
                known.reason = f"{known.reason} {visible(reason)}"[:2000]
                return
        self.rejected.append(
            RejectedRow(
                batch_id=batch.pk,
                position=row.position,
                line=row.line,
                reason=visible(reason)[:2000],
                expected=visible(expected)[:2000],
                excerpt=visible(row.body[:EXCERPT].decode("utf-8", "backslashreplace")).strip(),
            )
        )
        self.size += EXCERPT


def run_import(batch_id: UUID | str, *, watch: Watcher) -> ImportBatch | None:
    """Import a batch to its end, from wherever it stands; None when it is not this process's to import.

    `watch` is called after every chunk and at the end. What is wrong with the file is recorded on the batch, not raised.
    """
    batch = claim(batch_id, worker=this_worker())
    if batch is None:
        return None
    watch(batch)
    try:
        _import_or_fail(batch, watch)
    except Superseded:
        logger.info("Import %s was cancelled or taken over.", batch.pk)
        batch.refresh_from_db()
    watch(batch)
    return batch


def _import_or_fail(batch: ImportBatch, watch: Watcher) -> None:
    try:
        _import(batch, watch)
    except (UnreadableFile, UnknownFormat) as error:
        fail(batch, visible(str(error)))
    except FileNotFoundError:
        fail(batch, "The uploaded file is no longer in storage. Upload it again.")
    except OSError as error:
        words = (
            NO_ROOM if error.errno == errno.ENOSPC else f"The uploaded file could not be read: {error.strerror}. {KEPT}"
        )
        fail(batch, words)
    except OperationalError as error:
        if not isinstance(error.__cause__, psycopg.errors.DiskFull):
            raise  # the database is away: the lease expires, and the import goes on when it is back
        fail(batch, NO_ROOM)
    except (Superseded, InterfaceError):
        raise
    except Exception as error:
        logger.exception("Import %s broke at record %s", batch.pk, batch.position)
        fail(
            batch,
            f"This is a fault of the program, not of the file ({type(error).__name__}); the server's log says more. {KEPT}",
        )


def _import(batch: ImportBatch, watch: Watcher) -> None:
    with batch.file.open("rb") as file, _ReadAhead(batch, file) as chunks:
        for chunk in chunks:
            _store(batch, chunk)
            watch(batch)
            if batch.rejected_count > MOST_REJECTED:
                raise UnreadableFile(
                    f"More than {MOST_REJECTED:,} records could not be read, so this is hardly what it was taken for "
                    f"({chunk.format}). Look at the rejected rows, correct the file, and import it again."
                )
    finish(batch)
    discard(batch)


@unawaited()  # what a crash of Postgres takes, position and all, is read again: the file stays until the end is on the disk
def _store(batch: ImportBatch, chunk: Chunk) -> None:
    """Write a chunk and move the batch's position past it. Raises Superseded."""
    held = ImportBatch.objects.held(batch.attempt).filter(pk=batch.pk, position=chunk.start)
    moved = held.update(position=chunk.end, losses=0, leased_until=now() + lease(), format=chunk.format)
    if not moved:
        raise Superseded(batch)
    origin = Origin(
        workspace_id=batch.workspace_id,
        source=chunk.format,
        import_batch_id=batch.pk,
        policy_name=batch.policy_name,
    )
    copied = _copy_in_or_reject(batch, chunk, origin)
    RejectedRow.objects.bulk_create(chunk.rejected)
    ImportBatch.objects.filter(pk=batch.pk).update(
        bytes_read=min(chunk.bytes_read, batch.size),
        trajectory_count=F("trajectory_count") + copied.trajectories,
        step_count=F("step_count") + copied.steps,
        duplicate_count=F("duplicate_count") + copied.duplicates,
        rejected_count=F("rejected_count") + len(chunk.rejected),
    )
    batch.refresh_from_db()


def _copy_in_or_reject(batch: ImportBatch, chunk: Chunk, origin: Origin) -> Copied:
    """Write the chunk's trajectories; where PostgreSQL refuses a value of some, all but those."""
    try:
        with transaction.atomic():
            return copy_in([item for item, _ in chunk.prepared], origin)
    except DataError:
        copied = Copied(0, 0, 0)
    for item, row in chunk.prepared:
        try:
            with transaction.atomic():
                one = copy_in([item], origin)
        except DataError as error:
            chunk.reject(batch, row, f"The database refuses it: {error}".strip(), "Values that fit their columns.")
        else:
            copied = Copied(*(sum(pair) for pair in zip(copied, one, strict=True)))
    return copied


def _chunks(batch: ImportBatch, file: IO[bytes]) -> Generator[Chunk, None, None]:
    """The records after the batch's position, read and prepared. Touches no database: it runs in a thread."""
    source, rows, format = recognise_file(file)
    chunk = Chunk(format=format.name, start=batch.position, end=batch.position)
    broken: UnreadableFile | None = None
    rows = itertools.islice(rows, batch.position, None)
    while True:
        try:
            row = next(rows, None)
        except UnreadableFile as error:  # what could be read before it broke goes in first
            broken, row = error, None
        if row is None:
            break
        _take(row, format, batch, chunk)
        if chunk.is_full:
            chunk.bytes_read = source.bytes_read
            yield chunk
            chunk = Chunk(format=format.name, start=chunk.end, end=chunk.end)
    chunk.bytes_read = source.bytes_read
    yield chunk
    if broken:
        raise broken


def _take(row: RawRow, format: Format, batch: ImportBatch, chunk: Chunk) -> None:
    """Add one record to the chunk, as trajectories or as a rejected row."""
    chunk.end = row.position + 1
    body = row.body.strip()
    prepared: list[Prepared] = []
    try:
        if row.problem:
            raise BadRow(row.problem, f"One record: {format.shape}.")
        for record in format.read(jsontext.loads(body), batch.filename):
            prepared.append(prepare(record, body if record.part is None else jsontext.dumps(record.part)))
    except BadRow as refusal:
        chunk.reject(batch, row, refusal.reason, refusal.expected)
        if isinstance(refusal, BadParts):
            chunk.add(prepared, row)
    except jsontext.UnreadableJSON as error:
        chunk.reject(batch, row, str(error), "One JSON value in UTF-8.")
    except Exception as error:  # a record so odd that its format stumbles must not take the others with it
        logger.exception("Record %s of import %s broke the reader of %s", row.position, batch.pk, format.name)
        reason = f"It could not be read as {format.title} ({type(error).__name__}: {error})."
        chunk.reject(batch, row, reason, f"One record: {format.shape}.")
    else:
        chunk.add(prepared, row)


class _ReadAhead:
    """Prepares the next chunk in a thread while the caller writes this one; keeps the lease while it waits."""

    def __init__(self, batch: ImportBatch, file: IO[bytes]) -> None:
        self._batch = batch
        self._chunks = _chunks(batch, file)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="import")

    def __enter__(self) -> Iterable[Chunk]:
        return self._iterate()

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._chunks.close()

    def _iterate(self) -> Iterator[Chunk]:
        coming = self._pool.submit(next, self._chunks, None)
        while True:
            try:
                chunk = coming.result(timeout=lease().total_seconds() / 4)
            except StillReading:
                renew(self._batch)
                continue
            if chunk is None:
                return
            coming = self._pool.submit(next, self._chunks, None)
            yield chunk
