"""Verifies that a version is unchanged since it was frozen, by hashing its files again."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from django.core.files.storage import default_storage

from apps.datasets.files.splitfiles import content_hash
from apps.datasets.models import Split, Version


class Check(NamedTuple):
    """The result of hashing one file again."""

    name: str
    rows: int
    expected: str
    found: str
    """The file's current hash; empty if the file is missing."""

    @property
    def holds(self) -> bool:
        return self.found == self.expected


class Verification(NamedTuple):
    """All files of a version, and its content hash recomputed from them."""

    checks: list[Check]
    content_hash: str

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def verify(version: Version) -> Verification:
    """Hash every file of a frozen version. Reads all of them in constant memory."""
    checks = [
        Check(f"{split.value}.{format}", entry["rows"], entry["sha256"], _sha256(entry["name"]))
        for format in ("jsonl", "parquet")
        for split in Split
        for entry in [version.files[format][split.value]]
    ]
    hashes = {check.name: check.found for check in checks}
    total = content_hash({split: hashes[f"{split.value}.jsonl"] for split in Split})
    return Verification(
        [*checks, Check("all rows", sum(version.row_counts.values()), version.content_hash, total)], total
    )


def _sha256(name: str) -> str:
    if not default_storage.exists(name):
        return ""
    with default_storage.open(name, "rb") as file:
        digest = hashlib.sha256()
        for piece in file.chunks(1024 * 1024):
            digest.update(piece)
        return digest.hexdigest()
