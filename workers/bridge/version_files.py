"""Puts a frozen version's files into a run's folder, and refuses bytes that are not the frozen ones."""

import hashlib
import os
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage

from apps.datasets.models import Split, Version
from trainer.failures import DataFailure

CHUNK_BYTES = 1024 * 1024


def materialise(version: Version, split: Split, folder: Path) -> str | None:
    """Copy one split to `<split>.jsonl` in `folder`; its name, or None when the version has no such rows.

    Raises DataFailure when the file is gone or is not what was frozen.
    """
    if not version.row_counts.get(split.value):
        return None
    stored = version.files["jsonl"][split.value]
    target = folder / f"{split.value}.jsonl"
    if target.exists() and _sha256(target) == stored["sha256"]:
        return target.name  # an earlier attempt's copy
    part = target.with_suffix(".part")
    digest = hashlib.sha256()
    try:
        with default_storage.open(stored["name"], "rb") as source, part.open("wb") as copy:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
    except FileNotFoundError:
        raise DataFailure(
            f"The {split.label.lower()} file of {version} is not in the file storage ({stored['name']}).",
            advice="Restore the storage from a backup, or freeze a new version and launch the run on that.",
        ) from None
    if digest.hexdigest() != stored["sha256"]:
        part.unlink()
        raise _corrupted(version, split, stored, digest.hexdigest())
    os.replace(part, target)
    return target.name


def _corrupted(version: Version, split: Split, stored: dict[str, Any], found: str) -> DataFailure:
    return DataFailure(
        f"The {split.label.lower()} file of {version} has changed since it was frozen: its SHA-256 is {found[:12]}…, "
        f"expected {stored['sha256'][:12]}….",
        advice=f"Restore {stored['name']} from a backup, or freeze a new version and launch the run on that. "
        "Nothing was trained.",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
