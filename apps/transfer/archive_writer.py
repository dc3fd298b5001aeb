"""Writes the archive of a workspace: a zip file with a member for each table, streamed, in constant memory."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.utils.timezone import now

from apps.accounts.models import User, Workspace
from apps.common.code_version import code_version
from apps.datasets.models import Version
from apps.policies.locations import weights_of_run
from apps.policies.models import Policy
from apps.trajectories.export import rich_form
from apps.trajectories.imports.preparation import unpack_original
from apps.trajectories.models import Original, Trajectory
from apps.transfer import people
from apps.transfer.batches import AT_ONCE, batched
from apps.transfer.columns import written
from apps.transfer.refusals import TransferRefused
from apps.transfer.tables import EXCEPTIONS, LISTED, SPECIAL, TABLES, Table
from contract import jsontext
from contract.trajectory import FORMAT as TRAJECTORY_FORMAT

FORMAT: Final = "retrace-workspace/2"
MANIFEST: Final = "manifest.json"
TRAJECTORIES: Final = "trajectories.jsonl"
ORIGINALS: Final = "originals.jsonl"
WEIGHT_FILES: Final = (".safetensors", ".json", ".jinja", ".txt", ".model", ".tiktoken", ".md")
"""Suffixes of the model files included. Other formats of weights can run code and are never loaded."""
BLOCK: Final = 1 << 20


@dataclass
class Member:
    """A member of the archive while it's being written."""

    _entry: IO[bytes]
    rows: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        self._entry.write(data)
        self.digest.update(data)
        self.size += len(data)

    def row(self, value: Any) -> None:
        self.write(jsontext.dumps(value) + b"\n")
        self.rows += 1


class ArchiveWriter:
    """Writes one workspace to an open file."""

    def __init__(
        self, file: IO[bytes], workspace: Workspace, *, include_weights: bool, progress: Callable[[int], None]
    ) -> None:
        self._zip = ZipFile(file, "w", ZIP_DEFLATED, compresslevel=3)
        self._workspace = workspace
        self._include_weights = include_weights
        self._progress = progress
        self._people = people.Writer(workspace)
        self._members: dict[str, dict[str, Any]] = {}

    def write(self) -> dict[str, int]:
        """Write everything; returns the number of rows in each member. Raises TransferRefused."""
        with self._zip, snapshot():
            for table in (*TABLES, *LISTED):
                self._table(table)
            self._trajectories()
            self._originals()
            self._versions()
            if self._include_weights:
                self._weights()
            with self._member(people.MEMBER) as member:
                for row in self._people.rows():
                    member.row(row)
            self._zip.writestr(MANIFEST, json.dumps(self._manifest(), indent=1))
        return {name: member["rows"] for name, member in self._members.items() if member["rows"] is not None}

    @contextmanager
    def _member(self, name: str, *, has_rows: bool = True) -> Iterator[Member]:
        info = ZipInfo(name, now().timetuple()[:6])
        info.compress_type = ZIP_DEFLATED
        with self._zip.open(info, "w", force_zip64=True) as entry:
            member = Member(entry)
            yield member
        rows = member.rows if has_rows else None
        self._members[name] = {"rows": rows, "bytes": member.size, "sha256": member.digest.hexdigest()}

    def _table(self, table: Table) -> None:
        columns = table.columns
        naming = [index for index, column in enumerate(columns) if column.related_model is User]
        values = table.rows(self._workspace).values_list(*(column.attname for column in columns))
        with self._member(table.name) as member:
            for batch in batched(values.iterator(chunk_size=AT_ONCE)):
                user_ids = {row[index] for row in batch for index in naming if row[index] is not None}
                addresses = self._people.addresses(user_ids)
                for row in batch:
                    fields = {column.name: written(column, value) for column, value in zip(columns, row, strict=True)}
                    for index in naming:
                        fields[columns[index].name] = addresses.get(row[index])
                    table.settle(fields)
                    member.row(fields)
                self._progress(len(batch))

    def _trajectories(self) -> None:
        """Write the trajectories in the order of their table, so that a reader can read both in parallel."""
        trajectories = (
            Trajectory.objects.filter(workspace=self._workspace).select_related("task", "policy").order_by("pk")
        )
        with self._member(TRAJECTORIES) as member:
            for trajectory in trajectories.iterator(chunk_size=AT_ONCE):
                for piece in rich_form(trajectory):
                    member.write(piece)
                member.rows += 1
                self._progress(1)

    def _originals(self) -> None:
        originals = Original.objects.filter(trajectory__workspace=self._workspace).order_by("pk")
        with self._member(ORIGINALS) as member:
            for original in originals.iterator(chunk_size=20):
                body = unpack_original(original.body)
                member.row({"trajectory": str(original.pk), **original_as_json(body)})

    def _versions(self) -> None:
        for version in Version.objects.frozen().filter(workspace=self._workspace).order_by("pk"):
            for format, splits in version.files.items():
                for split, entry in splits.items():
                    self._version_file(version, version_file(version.pk, split, format), entry)

    def _version_file(self, version: Version, name: str, entry: dict[str, Any]) -> None:
        with self._member(name, has_rows=False) as member:
            try:
                with default_storage.open(entry["name"], "rb") as file:
                    for block in file.chunks(BLOCK):
                        member.write(block)
            except FileNotFoundError:
                raise _changed(version) from None
        if member.digest.hexdigest() != entry["sha256"]:
            raise _changed(version)

    def _weights(self) -> None:
        for policy in Policy.objects.filter(workspace=self._workspace).select_related("made_by").order_by("pk"):
            weights = weights_of_run(policy)
            if weights is None:
                continue
            for folder in (weights.model, weights.adapter):
                for path in sorted(folder.glob("*")):
                    if path.suffix in WEIGHT_FILES and path.is_file() and not path.is_symlink():
                        self._file(f"weights/{weights.run.name}/{folder.name}/{path.name}", path)
            if weights.canary.is_file() and not weights.canary.is_symlink():
                self._file(f"weights/{weights.run.name}/{weights.canary.name}", weights.canary)

    def _file(self, name: str, path: Path) -> None:
        with self._member(name, has_rows=False) as member, path.open("rb") as file:
            while block := file.read(BLOCK):
                member.write(block)

    def _manifest(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "trajectories": TRAJECTORY_FORMAT,
            "retrace": {"api": settings.SPECTACULAR_SETTINGS["VERSION"], "code": code_version().hex()},
            "exported_at": now().isoformat(),
            "workspace": self._workspace.name,
            "members": self._members,
            "left_out": dict(_left_out(include_weights=self._include_weights)),
            "elsewhere": {str(model._meta.label_lower): member for model, member in SPECIAL.items()},
            "not_restored": {table.name: table.not_restored for table in LISTED},
        }


def _left_out(*, include_weights: bool) -> Iterator[tuple[str, str]]:
    """What isn't in an archive, and why."""
    for table in (*TABLES, *LISTED):
        for name, column in table.left_out.items():
            yield f"{table.label}.{name}", column.reason
    for model, reason in EXCEPTIONS.items():
        yield str(model._meta.label_lower), reason
    yield "passwords", "Nobody's password, session, or two-factor secret is in an archive."
    if not include_weights:
        yield "weights", "The models of training runs weren't asked for."


def version_file(version: object, split: str, format: str) -> str:
    """The name of the member for a file of a frozen version."""
    return f"versions/{version}/{split}.{format}"


def original_as_json(body: bytes) -> dict[str, str]:
    """The original as text if it's UTF-8, which compresses better than base64."""
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _changed(version: Version) -> TransferRefused:
    return TransferRefused(
        f"A file of the frozen version {version} is missing or has changed. Restore it from a backup of the storage; "
        "`manage.py verify_version` tells which one it is."
    )


def expected_rows(workspace: Workspace) -> int:
    """The total number of rows that `progress` will be called with."""
    counts = (table.rows(workspace).count() for table in (*TABLES, *LISTED))
    return sum(counts) + Trajectory.objects.filter(workspace=workspace).count()


@contextmanager
def snapshot() -> Iterator[None]:
    """A transaction that sees a single snapshot, while others continue writing."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
