"""Imports an uploaded file, the same way for the browser, the command, and the API.

Records are read and prepared a few megabytes ahead, in a thread or for large files in a second process, while the previous chunk is
being written. A chunk is one transaction: its trajectories, rejected rows, counts, and the position change together. An
import that is killed at any point therefore resumes where it stopped, and a second worker on the same batch can write nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO
from uuid import UUID

import psycopg.errors
from django.db import DataError, InterfaceError, OperationalError, transaction
from django.db.models import Count, F
from django.urls import reverse

from apps.common import disk
from apps.common.commits import unawaited
from apps.common.outages import BUCKET_AWAY, Outage, outage_of
from apps.common.second_process import Stopped
from apps.ingest.files.source import UnreadableFile
from apps.ingest.formats import UnknownFormat
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Kind, Phase, Superseded, lease, register
from apps.trajectories.imports.bulk_copy import Copied, Origin, copy_in
from apps.trajectories.imports.preparation import Chunk, chunks, located
from apps.trajectories.imports.reader_process import chunks_elsewhere
from apps.trajectories.imports.report_outcomes import apply_to_existing, apply_to_instances, contradicted_by
from apps.trajectories.imports.upload import discard, give_up
from apps.trajectories.models import ImportBatch, RejectedRow, Trajectory
from apps.trajectories.outlines import visible
from apps.webhooks.events import EventType

TASK = "imports.run"

IMPORTS = register(
    Kind(
        name="imports",
        noun="import",
        label="Import",
        model=ImportBatch,
        task=lambda batch: TASK,
        title=lambda batch: batch.filename,
        url=lambda batch: reverse("trajectories:import", args=[batch.pk]),
        webhook_events={Phase.DONE: EventType.IMPORT_FINISHED, Phase.FAILED: EventType.IMPORT_FAILED},
        is_cancellable=True,
        lane="imports",
        is_resumable=True,
    )
)


WORTH_A_PROCESS = 32 << 20
"""File size in bytes below which starting a process takes longer than it saves."""

PACKED = (b"PAR1", b"PK", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""Magic numbers of Parquet, zip, gzip, and zstd."""
TAR_HEADER = 512

MAX_REJECTED = 100_000
"""With more rejected rows than this, the file is clearly something else."""

MAX_WARNINGS = 20
"""Warnings stored as text; all are counted."""

CONTRADICTED = "A report in the archive contradicts the outcome that this trajectory has already. Nothing was changed."

MANY = 10
"""Minimum number of trajectories for a warning that most of them share a task without an instruction."""

KEPT = "Records read so far were imported, and the import can continue from there."
NO_ROOM = f"There is no room left on the server's disk. Free some space, then continue. {KEPT}"

Watcher = Callable[[ImportBatch], None]

logger = logging.getLogger(__name__)


def run_import(batch_id: UUID | str, *, watch: Watcher) -> ImportBatch | None:
    """Import a batch to its end, from its current position; None if another process is importing it.

    `watch` is called after every chunk and at the end. Problems with the file are recorded on the batch, not raised.
    """
    batch = lifecycle.claim(IMPORTS, batch_id)
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
        _fail(batch, "data", visible(str(error)))
    except FileNotFoundError:
        _fail(batch, "data", "The uploaded file is no longer in storage. Upload it again.")
    except BUCKET_AWAY:
        raise  # the lease expires, and the import resumes when it's back
    except OSError as error:
        if disk.is_out_of_space(error):
            _fail(batch, "disk_full", NO_ROOM)
        else:
            _fail(batch, "data", f"The uploaded file couldn't be read: {error.strerror or error}. {KEPT}")
    except OperationalError as error:
        if not isinstance(error.__cause__, psycopg.errors.DiskFull):
            raise  # the database is down: the lease expires, and the import resumes when it's back
        _fail(batch, "disk_full", NO_ROOM)
    except (Superseded, InterfaceError, Stopped):
        raise
    except Exception as error:
        if outage_of(error) is Outage.AWAY:
            raise  # the bucket reports a fault of its own
        logger.exception("Import %s broke at record %s", batch.pk, batch.position)
        _fail(
            batch,
            "crash",
            f"This is a bug in Retrace, not in the file ({type(error).__name__}); see the server's log. {KEPT}",
        )


def _fail(batch: ImportBatch, category: str, message: str) -> None:
    lifecycle.fail(batch, Failure(category, message))


def _import(batch: ImportBatch, watch: Watcher) -> None:
    if not batch.file:  # it was deleted with the last of its trajectories
        raise FileNotFoundError
    with batch.file.open("rb") as file, _ReadAhead(batch, file) as chunks:
        for chunk in chunks:
            _store(batch, chunk)
            watch(batch)
            if batch.rejected_count > MAX_REJECTED:
                raise UnreadableFile(
                    f"More than {MAX_REJECTED:,} records couldn't be read, so this is probably another format "
                    f"({chunk.format}). Look at the rejected rows, correct the file, and import it again."
                )
    _count_tasks(batch)
    with transaction.atomic():
        lifecycle.finish(batch, bytes_read=F("size"))
        is_needless = give_up(batch)
    if is_needless:
        discard(batch)


@unawaited()  # a Postgres crash may lose the commit, and the position with it; the file is then read again, so it's kept until the end is on disk
def _store(batch: ImportBatch, chunk: Chunk) -> None:
    """Write a chunk and advance the batch's position past it. Raises Superseded."""
    lifecycle.record_progress(batch, position=chunk.end, format=chunk.format or batch.format)
    origin = Origin(
        workspace_id=batch.workspace_id,
        source=chunk.format,
        import_batch_id=batch.pk,
        policy_name=batch.policy_name,
    )
    copied = _copy_in_or_reject(batch, chunk, origin)
    applied = apply_to_instances(batch, chunk.verdicts)
    for verdict, reason, expected in applied.refused:
        chunk.reject(verdict.row, reason, expected)
    outcomes = applied.outcomes + apply_to_existing(batch, (item for item, _ in chunk.prepared))
    contradicted = contradicted_by(batch, (item for item, _ in chunk.prepared))
    chunk.warnings += [located(row, CONTRADICTED) for item, row in chunk.prepared if item.id in contradicted]
    RejectedRow.objects.bulk_create(RejectedRow(batch_id=batch.pk, **asdict(row)) for row in chunk.rejected)
    ImportBatch.objects.filter(pk=batch.pk).update(
        bytes_read=min(chunk.bytes_read, batch.size),
        trajectory_count=F("trajectory_count") + copied.trajectories,
        step_count=F("step_count") + copied.steps,
        duplicate_count=F("duplicate_count") + copied.duplicates + applied.unchanged,
        outcome_count=F("outcome_count") + outcomes,
        rejected_count=F("rejected_count") + len(chunk.rejected),
        warning_count=F("warning_count") + len(chunk.warnings),
        warnings=[*batch.warnings, *chunk.warnings][:MAX_WARNINGS],
    )
    batch.refresh_from_db()


def _count_tasks(batch: ImportBatch) -> None:
    """Count the tasks, and warn if most trajectories share one without an instruction: the file may have been misread."""
    by_task = Trajectory.objects.filter(import_batch=batch).values("task").annotate(number=Count("pk")).order_by()
    warnings = list(batch.warnings)
    if largest := by_task.filter(task__instruction="").order_by("-number").values_list("task__key", "number").first():
        key, number = largest
        if number >= MANY and 2 * number > batch.trajectory_count:
            warnings.insert(
                0,
                f"{number:,} of {batch.trajectory_count:,} trajectories share the task {key}, and nothing says what was asked. "
                "If these are different tasks, name each in its record (`task_id` or `instruction`) and import the file again.",
            )
    ImportBatch.objects.held(batch.attempt).filter(pk=batch.pk).update(
        task_count=by_task.count(),
        warning_count=F("warning_count") + len(warnings) - len(batch.warnings),
        warnings=warnings[:MAX_WARNINGS],
    )


def _copy_in_or_reject(batch: ImportBatch, chunk: Chunk, origin: Origin) -> Copied:
    """Write the chunk's trajectories; if PostgreSQL refuses a value in some, write all others."""
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
            chunk.reject(row, f"The database refuses it: {error}".strip(), "Values that fit their columns.")
        else:
            copied = Copied(*(sum(pair) for pair in zip(copied, one, strict=True)))
    return copied


def _read(batch: ImportBatch, file: IO[bytes]) -> Generator[Chunk, None, None]:
    """The chunks after the batch's position. They're read in a thread, so reading doesn't use the database.

    Compressed files, however small, are unpacked in a process with a memory limit: their stated size may be false.
    """
    is_packed = _is_packed(file)
    if is_packed and not _is_a_file(file):
        copied = TemporaryFile()  # noqa: SIM115 -- it's closed with the last reference to it
        with lifecycle.lease_kept(batch):
            copyfileobj(file, copied)
        copied.seek(0)
        return chunks_elsewhere(copied, batch.filename, batch.position)
    if not is_packed and (batch.size < WORTH_A_PROCESS or not _is_a_file(file)):
        return chunks(file, batch.filename, batch.position)
    return chunks_elsewhere(file, batch.filename, batch.position)


def _is_packed(file: IO[bytes]) -> bool:
    head = file.read(TAR_HEADER)
    file.seek(0)
    return head.startswith(PACKED) or b"\0" in head


def _is_a_file(file: IO[bytes]) -> bool:
    """Whether another process can read the file too: remote storage may return a file-like object."""
    try:
        return file.fileno() >= 0
    except (AttributeError, OSError):
        return False


class _ReadAhead:
    """Prepares the next chunk in a thread while the caller writes the current one; renews the lease while it waits."""

    def __init__(self, batch: ImportBatch, file: IO[bytes]) -> None:
        self._batch = batch
        self._chunks = _read(batch, file)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="import")

    def __enter__(self) -> Iterable[Chunk]:
        return self._iterate()

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._chunks.close()

    def _iterate(self) -> Iterator[Chunk]:
        coming = self._pool.submit(next, self._chunks, None)
        while True:
            # Not by the timeout of `result`: a file store that doesn't respond also raises TimeoutError.
            while not wait([coming], timeout=lease().total_seconds() / 4).done:
                lifecycle.renew(self._batch)
            chunk = coming.result()
            if chunk is None:
                return
            coming = self._pool.submit(next, self._chunks, None)
            yield chunk
