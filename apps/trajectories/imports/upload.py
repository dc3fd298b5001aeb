"""Receives a file: streams it to storage while hashing it, and creates the batch to import."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePath, PureWindowsPath
from typing import IO, Any
from uuid import UUID

from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from apps.accounts.models import User
from apps.common import disk
from apps.common.ids import new_id
from apps.ingest import formats
from apps.jobs import lifecycle
from apps.jobs.models import JobState
from apps.trajectories.models import ImportBatch, Upload
from apps.trajectories.outlines import clip

LONGEST_UPLOAD = timedelta(days=7)
"""A file that no job has taken, or whose import is finished, until then belongs to a process that was killed."""
_SUFFIXES = re.compile(r"(?:\.[A-Za-z0-9]{1,8}){0,2}$")


class FileTooLarge(ValueError):
    """The upload exceeded the limit; nothing of it is kept."""

    def __init__(self) -> None:
        limit = settings.IMPORT_MAX_BYTES
        super().__init__(
            f"The file is larger than {limit / 1024**3:,.1f} GiB, the most that one import takes. Split it."
        )


@dataclass(frozen=True)
class StoredFile:
    """A file in storage, under a generated name."""

    name: str
    filename: str
    size: int
    sha256: str


def store(stream: IO[bytes] | File[Any], *, filename: str) -> StoredFile:
    """Stream a file to storage, with one block in memory. Raises FileTooLarge or DiskFull; then nothing of it is kept.

    The job that the file is for calls `take` in the transaction that creates it; otherwise `drop` deletes the file.
    """
    filename = base_name(filename)
    suffixes = _SUFFIXES.search(filename)
    current_time = now()
    name = default_storage.get_available_name(
        f"imports/{current_time:%Y/%m}/{new_id()}{suffixes[0] if suffixes else ''}"
    )
    content = _Hashing(stream)
    Upload.objects.create(name=name)
    try:
        default_storage.save(name, content)
    except BaseException as error:
        _delete(name)
        if disk.is_out_of_space(error):
            raise disk.DiskFull from error
        raise
    return StoredFile(name=name, filename=filename, size=content.taken, sha256=content.digest.hexdigest())


def take(stored: StoredFile) -> None:
    """Leave a stored file to the job that is created in this transaction."""
    Upload.objects.filter(name=stored.name).delete()


def drop(stored: StoredFile) -> None:
    """Delete a stored file that no job needs."""
    _delete(stored.name)


def delete_abandoned() -> None:
    """Delete the files of uploads, and of finished imports, whose process was killed."""
    names = Upload.objects.filter(started_at__lt=now() - LONGEST_UPLOAD).order_by("started_at")
    for name in names.values_list("name", flat=True)[:1000]:
        _delete(name)


def _delete(name: str) -> None:
    default_storage.delete(name)
    Upload.objects.filter(name=name).delete()


def start_import(
    *,
    workspace_id: UUID,
    stored: StoredFile,
    created_by: User | None,
    policy_name: str = "",
    idempotency_key: str = "",
    queue: bool = True,
) -> ImportBatch:
    """Create the batch for a stored file and enqueue it. A request repeated with its idempotency key returns the first one's batch.

    policy_name: the policy of trajectories that name none.
    """
    try:
        with transaction.atomic():
            batch = ImportBatch.objects.create(
                workspace_id=workspace_id,
                filename=stored.filename,
                file=stored.name,
                size=stored.size,
                sha256=stored.sha256,
                created_by=created_by,
                policy_name=clip(policy_name.strip(), 200),
                idempotency_key=idempotency_key,
            )
            take(stored)
            if queue:
                lifecycle.queue(batch)
    except IntegrityError:
        drop(stored)
        if not idempotency_key:
            raise
        return ImportBatch.objects.get(workspace_id=workspace_id, idempotency_key=idempotency_key)
    return batch


def unfinished_import(*, workspace_id: UUID, sha256: str) -> ImportBatch | None:
    """The batch that is importing this same file, or is about to."""
    return ImportBatch.objects.active().filter(workspace_id=workspace_id, sha256=sha256).order_by("-pk").first()


def finished_import(*, workspace_id: UUID, sha256: str) -> ImportBatch | None:
    """The batch that imported this same file, if any of its trajectories still exist."""
    done = ImportBatch.objects.filter(workspace_id=workspace_id, sha256=sha256, state=JobState.DONE)
    batch = done.order_by("-pk").first()
    if batch is None:
        return None
    if (batch.trajectory_count or batch.duplicate_count) and not batch.trajectories.exists():
        return None  # whether those that it duplicated still exist isn't known
    if not batch.trajectory_count and formats.holds_no_trajectories(batch.format):
        return None  # a report: the trajectories that it judges may have been imported since
    return batch


def base_name(filename: str) -> str:
    """The last part of a path in any operating system's syntax: for display, never used as a path."""
    name = PureWindowsPath(PurePath(filename.replace("\x00", "")).name).name
    return clip(name.strip(), 300) or "unnamed"


def give_up(batch: ImportBatch) -> bool:
    """Let `delete_abandoned` have the file of a batch that this transaction finishes, unless its rejected rows may still be looked up in it. Returns
    whether to `discard` it now: a process that is killed before that leaves no file forever.
    """
    if batch.rejected_count or not batch.file.name:
        return False
    Upload.objects.get_or_create(name=batch.file.name)
    return True


def discard(batch: ImportBatch) -> None:
    """Delete the stored file of a batch."""
    _delete(str(batch.file.name))


class _Hashing(File):  # type: ignore[type-arg]  # generic in the stubs only
    """Counts, limits, and hashes a file while storage reads it."""

    def __init__(self, stream: IO[bytes] | File[Any]) -> None:
        super().__init__(stream)
        self._stream = stream
        self.digest = hashlib.sha256()
        self.taken = 0

    def seekable(self) -> bool:
        """False: everything read is hashed, so nothing may be read twice."""
        return False

    def read(self, size: int = -1, /) -> bytes:
        block: bytes = self._stream.read(size)
        self.taken += len(block)
        if self.taken > settings.IMPORT_MAX_BYTES:
            raise FileTooLarge
        self.digest.update(block)
        return block

    def chunks(self, chunk_size: int | None = None) -> Any:
        """Blocks from the current position: a request's body can't be rewound, which Django's File would try."""
        while block := self.read(chunk_size or 1 << 20):
            yield block
