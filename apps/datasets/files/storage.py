"""Storage of a version's files, and removal of files from unsuccessful attempts."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.files.storage import default_storage

from apps.datasets.files.splitfiles import FileInfo
from apps.datasets.models import Split, Version

log = logging.getLogger(__name__)

FORMATS = ("jsonl", "parquet")


def store(version: Version, files: Mapping[Split, Mapping[str, FileInfo]]) -> dict[str, dict[str, Any]]:
    """Move this attempt's files to permanent storage, each in one rename (local storage) or upload. Returns facts by format and split."""
    return {
        format: {split.value: _stored(version, split, format, files[split][format]) for split in Split}
        for format in FORMATS
    }


def discard(version: Version, attempts: Iterable[int]) -> None:
    """Delete what unsuccessful attempts have stored, as far as the storage allows. Nothing refers to these files."""
    for name in [_name(version, *which) for which in product(attempts, Split, FORMATS)]:
        try:
            default_storage.delete(name)
        except Exception:  # each storage backend has its own exceptions
            log.exception("%s of %s stays in the storage; nothing refers to it", name, version)


def _stored(version: Version, split: Split, format: str, entry: FileInfo) -> dict[str, Any]:
    with entry.path.open("rb") as file:
        os.fsync(file.fileno())
        name = default_storage.save(_name(version, version.attempt, split, format), FinishedFile(file, entry.path))
    _make_read_only(name)
    return {"name": name, "rows": entry.rows, "bytes": entry.bytes, "sha256": entry.sha256}


def _name(version: Version, attempt: int, split: Split, format: str) -> str:
    """A name unique to the attempt: an attempt that was believed dead may still store or delete files while another finishes."""
    return f"datasets/{version.dataset_id}/v{version.number}/{split.value}-{attempt}.{format}"


class FinishedFile(File):  # type: ignore[type-arg]  # the stubs make it generic, Django does not
    """A file that the storage may move instead of copying."""

    def __init__(self, file: object, path: Path) -> None:
        super().__init__(file, name=path.name)  # type: ignore[arg-type]  # any binary file
        self._path = path

    def temporary_file_path(self) -> str:
        return str(self._path)


def _make_read_only(name: str) -> None:
    try:
        path = Path(default_storage.path(name))
    except NotImplementedError:  # a bucket; access is controlled by its own policies
        return
    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
