"""Stores the files of frozen versions from an archive, byte for byte, and restores the weights of training runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage

from apps.datasets.files.splitfiles import content_hash
from apps.datasets.models import Split, Version
from apps.training.models import Run
from apps.transfer.archive_reader import ArchiveReader, WeightFile
from apps.transfer.archive_writer import version_file
from apps.transfer.ids import Ids
from apps.transfer.models import Import
from apps.transfer.refusals import BadArchive
from apps.transfer.tables import Row
from contract.rows import ROWS

FORMATS = ("jsonl", "parquet")


class FrozenFiles:
    """The files that an import has stored; `discard` removes them."""

    def __init__(self, archive: ArchiveReader, job: Import) -> None:
        self._archive = archive
        self._prefix = f"datasets/imported/{job.pk}"
        self._attempt = job.attempt
        self._mark = f"import-{job.pk}.part"
        """The name of a file that marks restored folders of training runs until the import is committed."""
        root = Path(settings.RUNS_DIR)
        self._earlier = [root / f"import-{job.pk}-{attempt}.part" for attempt in range(1, job.attempt + 1)]
        self._unfinished = self._earlier[-1]
        """Folder of the models until the import holds its job for good. Specific to the attempt, since one presumed dead may still be writing."""
        self._unused = set(archive.version_files())
        self._stored: list[str] = []
        self._folders: list[Path] = []

    def stored(self, row: Row, values: Row, location: str) -> dict[str, Any]:
        """Store the files of a version, and return its `files`. Raises BadArchive."""
        if values["state"] != Version.State.FROZEN:
            return {}
        files: dict[str, Any] = {format: {} for format in FORMATS}
        for format in FORMATS:
            for split in Split.values:
                name = version_file(row["id"], split, format)
                files[format][split] = self._one(row, name, split, format, location)
        sums = {split: files["jsonl"][split.value]["sha256"] for split in Split}
        if content_hash(sums) != values["content_hash"]:
            raise BadArchive(location, "The files of the version have another hash.", f"{values['content_hash']}.")
        return files

    def refuse_others(self) -> None:
        """Refuse files that belong to no version. Raises BadArchive."""
        if self._unused:
            raise BadArchive(sorted(self._unused)[0], "There is no such frozen version.", "files of frozen versions.")

    def unpack_weights(self, ids: Ids) -> None:
        """Write the models of training runs to this attempt's folder. Raises BadArchive."""
        for folder in self._earlier:
            shutil.rmtree(folder, ignore_errors=True)
        files = list(self._archive.weight_files())
        ids.look_up({file.run for file in files})
        named_ids = {ids.changed(file.run) for file in files if ids.has(file.run)}
        # Other jobs have folders there, too.
        run_ids = set(Run.objects.filter(pk__in=named_ids).values_list("pk", flat=True))
        for file in files:
            if not ids.has(file.run) or ids.changed(file.run) not in run_ids:
                raise BadArchive(file.name, "There is no such training run.", "weights of a run in the archive.")
            self._unpack(file, self._unfinished / str(ids.changed(file.run)))

    def restore_weights(self) -> None:
        """Move the models to the folders of their training runs. The caller must hold the job until the transaction ends."""
        for folder in sorted(self._unfinished.glob("*")):
            place = Path(settings.RUNS_DIR) / folder.name
            if (place / self._mark).exists():  # left by an attempt that was killed before its commit
                shutil.rmtree(place)
            if place.exists():  # never overwrite
                continue
            (folder / self._mark).touch()
            self._folders.append(place)
            folder.rename(place)

    def keep(self) -> None:
        """Remove the marks after the import is committed, since no further attempt will look for them."""
        shutil.rmtree(self._unfinished, ignore_errors=True)
        for folder in self._folders:
            with suppress(OSError):
                (folder / self._mark).unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete everything that was stored."""
        for name in self._stored:
            default_storage.delete(name)
        for folder in (self._unfinished, *self._folders):
            shutil.rmtree(folder, ignore_errors=True)

    def _one(self, row: Row, name: str, split: str, format: str, location: str) -> dict[str, Any]:
        member = self._archive.members.get(name)
        try:
            declared = row["files"][format][split]
            rows, size, sha256 = declared["rows"], declared["bytes"], declared["sha256"]
        except (KeyError, TypeError):
            raise BadArchive(
                location, f"Its `files` don't say what {split}.{format} is.", "rows, bytes, sha256."
            ) from None
        if member is None or type(rows) is not int or (size, sha256) != (member.bytes, member.sha256):
            raise BadArchive(location, f"{name} is missing, or differs.", "the files that the row names.")
        self._unused.discard(name)
        if format == "jsonl":
            self._refuse_unreadable(name, row["row_type"], rows)
        for attempt in range(1, self._attempt):  # files of killed attempts
            default_storage.delete(self._name(row["id"], split, format, attempt))
        target = self._name(row["id"], split, format, self._attempt)
        stored = default_storage.save(target, _Streamed(self._archive.blocks(name)))
        self._stored.append(stored)
        return {"name": stored, "rows": rows, "bytes": size, "sha256": sha256}

    def _refuse_unreadable(self, name: str, row_type: str, count: int) -> None:
        """Refuse rows that pages and training runs, which read them line by line, couldn't read. Raises BadArchive."""
        line_count = 0
        for location, line in self._archive.rows(name, max_bytes=2 * settings.IMPORT_MAX_RECORD_BYTES):
            try:
                ROWS[row_type].from_json(line)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise BadArchive(location, f"It isn't a row: {error}", f"a row of the type {row_type}.") from None
            line_count += 1
        if line_count != count:
            raise BadArchive(name, f"It has {line_count:,} lines.", f"{count:,}, as its version says.")

    def _name(self, version: str, split: str, format: str, attempt: int) -> str:
        return f"{self._prefix}/{version}/{split}-{attempt}.{format}"

    def _unpack(self, file: WeightFile, folder: Path) -> None:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as target:
            for block in self._archive.blocks(file.name):
                target.write(block)


class _Streamed(File):  # type: ignore[type-arg]  # generic in the stubs only
    """An iterator of blocks as a file that the storage reads once."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__(None, name="streamed")
        self._blocks = blocks

    def chunks(self, chunk_size: int | None = None) -> Any:
        return self._blocks
