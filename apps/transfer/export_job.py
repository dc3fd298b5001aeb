"""Requesting an export of a workspace, the worker's part of it, and the expiry of its archive."""

from __future__ import annotations

import hashlib
import shutil
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import Membership, Workspace
from apps.common import disk
from apps.datasets.files.storage import FinishedFile
from apps.jobs import lifecycle
from apps.jobs.models import RESUMABLE, Event, Failure, Kind, Phase, Superseded, register
from apps.transfer.archive_writer import BLOCK, ArchiveWriter, expected_rows
from apps.transfer.models import Export, Import
from apps.transfer.refusals import TransferRefused

TASK = "transfer.export"
KEPT_FOR = timedelta(days=7)
"""How long an archive can be downloaded."""


def _end(export: Export, event: Event) -> None:
    """Delete what killed attempts have stored."""
    if event.kind in ("failed", "cancelling"):
        transaction.on_commit(lambda: _discard_attempts(export), robust=True)


EXPORTS = register(
    Kind(
        name="workspace_exports",
        noun="workspace export",
        label="Workspace export",
        model=Export,
        task=lambda export: TASK,
        title=lambda export: f"Export of {export.workspace}",
        url=lambda export: reverse("transfer:transfer"),
        related=("workspace", "created_by"),
        on_event=_end,
        listed_with=("workspace",),
        is_cancellable=True,
        lane="upkeep",
        attempt_defaults={"rows_done": 0},
    )
)


@transaction.atomic
def request_export(*, by: Membership, include_weights: bool = False) -> Export:
    """Have a worker write the archive; while one with the same content is being written, requests return that one."""
    workspace = Workspace.objects.select_for_update(no_key=True).get(pk=by.workspace_id)
    if active := Export.objects.active().filter(workspace=workspace, include_weights=include_weights).first():
        return active
    export = Export.objects.create(workspace=workspace, created_by=by.user, include_weights=include_weights)
    audit.record(
        workspace=workspace,
        actor=by.user,
        action="asked to export",
        subject=f"workspace {workspace}",
        target=export,
        weights=include_weights,
    )
    lifecycle.queue(export)
    return export


def export_workspace(export_id: str) -> bool:
    """Write and store the archive. False if it's done, or held by another worker."""
    export = lifecycle.claim(EXPORTS, export_id)
    if export is None:
        return False
    folder = _fresh_folder(export)
    stored_name = ""
    done = 0

    def count(rows: int) -> None:
        nonlocal done
        done += rows

    try:
        export.rows_expected = expected_rows(export.workspace)
        with lifecycle.lease_kept(export, lambda: {"rows_done": done, "rows_expected": export.rows_expected}):
            path = folder / "workspace.zip"
            with path.open("wb") as file:
                counts = ArchiveWriter(
                    file, export.workspace, include_weights=export.include_weights, progress=count
                ).write()
            size, sha256 = path.stat().st_size, _sha256(path)
            with path.open("rb") as written:
                stored_name = default_storage.save(_name(export, export.attempt), FinishedFile(written, path))
            _finish(export, file=stored_name, size=size, sha256=sha256, counts=counts, rows_done=done)
    except (TransferRefused, OSError) as error:
        message = disk.FULL if disk.is_out_of_space(error) else str(error)
        _discard(stored_name)
        lifecycle.fail(export, Failure("data", message))
    except Superseded:
        _discard(stored_name)
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


@transaction.atomic
def _finish(export: Export, **columns: object) -> None:
    audit.record(
        workspace=export.workspace,
        actor=export.created_by,
        action="exported",
        subject=f"workspace {export.workspace}",
        target=export,
        bytes=columns["size"],
        sha256=columns["sha256"],
    )
    lifecycle.finish(export, expires_at=now() + KEPT_FOR, rows_expected=columns["rows_done"], **columns)


@transaction.atomic
def delete_archive(*, export: Export, by: Membership) -> None:
    """Delete the archive of a finished export."""
    name = export.file
    if not Export.objects.filter(pk=export.pk, file=name).exclude(file="").update(file="", expires_at=None):
        return
    audit.record(
        workspace=by.workspace,
        actor=by.user,
        action="deleted the archive of",
        subject=f"workspace {by.workspace}",
        target=export,
    )
    transaction.on_commit(lambda: _discard(name), robust=True)


def expire() -> None:
    """Delete expired archives, and those of finished imports. Called by a periodic task."""
    over = Q(expires_at__lt=now()) | Q(state__in=Export.states_in(*RESUMABLE))
    for export in Export.objects.filter(over).exclude(file="")[:100]:
        _discard(export.file)
        Export.objects.filter(pk=export.pk).update(file="", expires_at=None)
    ended = Import.objects.in_phase(Phase.DONE, *RESUMABLE)
    for job in ended.exclude(file="")[:100]:
        _discard(job.file)
        Import.objects.filter(pk=job.pk).update(file="")
    _remove_folders(Export, Path(settings.VAR) / "exporting", "*")
    _remove_folders(Import, Path(settings.RUNS_DIR), "import-*.part")


def _remove_folders(model: type[Export | Import], root: Path, pattern: str) -> None:
    """Remove the folders of killed attempts whose jobs are over."""
    # Listed before the query: otherwise, the folder of a job that has just begun would seem to have no job.
    folders = list(root.glob(pattern))
    active = {str(pk) for pk in model._default_manager.active().values_list("pk", flat=True)}
    for folder in folders:
        if not any(pk in folder.name for pk in active):
            shutil.rmtree(folder, ignore_errors=True)


def _discard(name: str) -> None:
    if name:
        default_storage.delete(name)


def _discard_attempts(export: Export) -> None:
    for attempt in range(1, export.attempt + 1):
        _discard(_name(export, attempt))


def _name(export: Export, attempt: int) -> str:
    """A name unique to the attempt, since one that was believed dead may still write."""
    return f"exports/{export.workspace_id}/{export.pk}-{attempt}.zip"


def _fresh_folder(export: Export) -> Path:
    """An empty folder for this attempt; folders of killed attempts are deleted."""
    for attempt in range(1, export.attempt + 1):
        _discard(_name(export, attempt))
        shutil.rmtree(_folder(export, attempt), ignore_errors=True)
    folder = _folder(export, export.attempt)
    folder.mkdir(parents=True)
    return folder


def _folder(export: Export, attempt: int) -> Path:
    return Path(settings.VAR) / "exporting" / f"{export.pk}-{attempt}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
