"""Requesting the import of an archive into an empty workspace, and the worker's part of it."""

from __future__ import annotations

import logging

from django.core.files.storage import default_storage
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, transaction
from django.urls import reverse
from psycopg.errors import DiskFull

from apps.accounts import audit
from apps.accounts.models import Membership, Workspace
from apps.common import disk
from apps.jobs import lifecycle
from apps.jobs.models import HELD, Failure, Kind, Superseded, register
from apps.redaction import rules as redaction
from apps.trajectories.imports.upload import StoredFile, drop, take
from apps.transfer import consistency
from apps.transfer.archive_reader import ArchiveReader
from apps.transfer.frozen_files import FrozenFiles
from apps.transfer.loader import Loader, refuse_content
from apps.transfer.models import Import
from apps.transfer.refusals import TransferRefused

log = logging.getLogger(__name__)

TASK = "transfer.import"
CONNECTION_LOST = ("08", "57")
"""Classes of SQLSTATE: the connection failed, or the server ended it."""
MAX_PEOPLE = 1000
"""Maximum number of people to invite that an import lists."""

IMPORTS = register(
    Kind(
        name="workspace_imports",
        noun="workspace import",
        label="Workspace import",
        model=Import,
        task=lambda job: TASK,
        title=lambda job: f"Import of the archive {job.filename}",
        url=lambda job: reverse("transfer:transfer"),
        related=("workspace", "created_by"),
        is_cancellable=True,
        lane="upkeep",
        attempt_defaults={"rows_done": 0},
    )
)


class AnotherImport(TransferRefused):
    """Another archive is being imported into the workspace."""

    def __init__(self) -> None:
        super().__init__("An archive is being imported into this workspace already. Wait until that is over.")


def request_import(*, stored: StoredFile, by: Membership) -> Import:
    """Have a worker import a stored archive. If this raises TransferRefused, the file is deleted."""
    try:
        return _requested(stored, by)
    except TransferRefused:
        drop(stored)
        raise


@transaction.atomic
def _requested(stored: StoredFile, by: Membership) -> Import:
    workspace = Workspace.objects.select_for_update(no_key=True).get(pk=by.workspace_id)
    if Import.objects.active().filter(workspace=workspace).exists():
        raise AnotherImport
    refuse_content(workspace)
    job = Import.objects.create(
        workspace=workspace,
        created_by=by.user,
        file=stored.name,
        filename=stored.filename,
        size=stored.size,
        sha256=stored.sha256,
    )
    take(stored)
    audit.record(
        workspace=workspace,
        actor=by.user,
        action="asked to import",
        subject=f"archive {stored.filename}"[:200],
        target=job,
        sha256=stored.sha256,
    )
    lifecycle.queue(job)
    return job


def import_workspace(import_id: str) -> bool:
    """Import the archive, completely or not at all. False if it's done, or held by another worker."""
    job = lifecycle.claim(IMPORTS, import_id)
    if job is None:
        return False
    progress = _Progress()
    files: FrozenFiles | None = None
    try:
        with (
            lifecycle.lease_kept(job, progress.columns),
            default_storage.open(job.file, "rb") as file,
        ):
            archive = ArchiveReader(file)
            progress.expected = sum(member.rows or 0 for member in archive.members.values())
            archive.verify(progress.count)
            files = FrozenFiles(archive, job)
            _carry_out(job, archive, files, progress)
            files.keep()
    except Superseded:
        _remove_files(files)
        return False
    except (OperationalError, InterfaceError) as error:
        if _is_down(error):
            raise  # it may have been committed; otherwise the lease expires, and the next attempt starts over
        _remove_files(files)
        lifecycle.fail(job, Failure("data", _words(error)))
    except (TransferRefused, DataError, IntegrityError, OSError) as error:
        _remove_files(files)
        lifecycle.fail(job, Failure("data", _words(error)))
    except Exception as error:  # an archive that crashes the import mustn't be retried
        log.exception("the archive of import %s can't be read", job.pk)
        _remove_files(files)
        message = f"The archive can't be read ({type(error).__name__}), so nothing was imported. Export it again."
        lifecycle.fail(job, Failure("data", message))
    _discard(job)
    return True


class _Progress:
    """Progress so far, read by the thread that renews the lease."""

    def __init__(self) -> None:
        self.done = self.expected = 0

    def count(self, rows: int) -> None:
        self.done += rows

    def columns(self) -> dict[str, int]:
        return {"rows_done": self.done, "rows_expected": self.expected}


@transaction.atomic
def _carry_out(job: Import, archive: ArchiveReader, files: FrozenFiles, progress: _Progress) -> None:
    """Import everything and finish the job in one transaction: a workspace gets all of an archive or nothing."""
    workspace = job.workspace
    refuse_content(workspace)
    loader = Loader(archive, workspace, import_id=job.pk, files=files, progress=progress.count)
    # Of two archives with the same ids, the second would wait for the first one's commit, and then fail.
    other_imports = Import.objects.in_phase(*HELD).exclude(pk=job.pk)
    counts = loader.load(may_keep_ids=not other_imports.exists())
    consistency.count_places(workspace)
    consistency.refuse_long_work(workspace)
    files.refuse_others()
    files.unpack_weights(loader.ids)
    redaction.next_version(workspace)  # otherwise processes would keep using their cached rules
    audit.record(
        workspace=workspace,
        actor=job.created_by,
        action="imported",
        subject=f"archive {job.filename}"[:200],
        target=job,
        **{label: count for label, count in counts.items() if count},
    )
    lifecycle.finish(
        job,
        counts={label: count for label, count in counts.items() if count},
        people=loader.people.strangers[:MAX_PEOPLE],
        **progress.columns(),
    )
    files.restore_weights()


def _is_down(error: Exception) -> bool:
    """Whether the connection broke, rather than PostgreSQL refusing a statement."""
    state = getattr(error.__cause__, "sqlstate", None)
    return state is None or state.startswith(CONNECTION_LOST)


def _words(error: Exception) -> str:
    if isinstance(error.__cause__, DiskFull):
        return disk.FULL
    if isinstance(error, OSError):
        return disk.FULL if disk.is_out_of_space(error) else f"The archive could not be read: {disk.words_of(error)}"
    if isinstance(error, TransferRefused):
        return str(error)
    first = (str(error).splitlines() or [""])[0][:300]
    return f"The database refuses a row of the archive, so nothing was imported: {first}"


def _remove_files(files: FrozenFiles | None) -> None:
    if files is not None:
        files.discard()


def _discard(job: Import) -> None:
    """Delete the archive, which is no longer needed."""
    default_storage.delete(job.file)  # first: while the row names the file, `expire` retries the deletion
    Import.objects.filter(pk=job.pk).update(file="")
