"""Writes, changes, and imports archives of workspaces, as a worker does."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from apps.accounts.models import Membership, Role, User
from apps.trajectories.imports.upload import store
from apps.transfer.export_job import export_workspace, request_export
from apps.transfer.import_job import import_workspace, request_import
from apps.transfer.models import Export, Import
from apps.transfer.tables import TABLES
from tests import factories

MANIFEST = "manifest.json"
Members = dict[str, bytes]


def exported(owner: Membership, **options: Any) -> bytes:
    """An archive of the owner's workspace."""
    export = request_export(by=owner, **options)
    assert export_workspace(str(export.pk))
    export = Export.objects.get(pk=export.pk)
    assert export.state == "done", export.error
    with default_storage.open(export.file, "rb") as file:
        return file.read()


def imported(archive: bytes, owner: Membership) -> Import:
    """The finished import of an archive into the owner's workspace."""
    stored = store(ContentFile(archive), filename="workspace.zip")
    job = request_import(stored=stored, by=owner)
    assert import_workspace(str(job.pk))
    return Import.objects.get(pk=job.pk)


def unpacked(archive: bytes) -> dict[str, bytes]:
    """The members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(archive)) as archive_file:
        return {name: archive_file.read(name) for name in archive_file.namelist()}


def rows(members: Mapping[str, bytes], name: str) -> list[dict[str, Any]]:
    """The rows of a member."""
    return [json.loads(line) for line in members[name].splitlines()]


def table(members: Mapping[str, bytes], label: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    return rows(members, f"tables/{label}.jsonl")


def packed(members: Mapping[str, bytes], **manifest: Any) -> bytes:
    """An archive of these members, with a matching manifest."""
    facts = {
        name: {
            "rows": body.count(b"\n") if name.endswith(".jsonl") and not name.startswith("versions/") else None,
            "bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        for name, body in members.items()
        if name != MANIFEST
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in facts:
            archive.writestr(name, members[name])
        archive.writestr(MANIFEST, json.dumps({"format": "retrace-workspace/2", "members": facts, **manifest}))
    return buffer.getvalue()


def with_rows(members: Mapping[str, bytes], name: str, rows: list[dict[str, Any]]) -> dict[str, bytes]:
    """The members, with other rows in one of them."""
    return {**members, name: b"".join(json.dumps(row).encode() + b"\n" for row in rows)}


def changed(members: Members, label: str, **values: Any) -> bytes:
    """An archive with other values in the first row of a table."""
    name = f"tables/{label}.jsonl"
    first, *rest = rows(members, name)
    return packed(with_rows(members, name, [{**first, **values}, *rest]))


def refused(archive: bytes) -> str:
    """Why an archive is refused; checks that nothing of it was stored."""
    elsewhere = factories.member(Role.OWNER)
    people = User.objects.count()
    job = imported(archive, elsewhere)
    assert job.state == "failed"
    assert job.file == ""
    assert [table.label for table in TABLES if table.rows(elsewhere.workspace).exists()] == []
    assert User.objects.count() == people
    return job.error
