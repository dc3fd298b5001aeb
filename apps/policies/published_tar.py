"""Streams a folder as an uncompressed tar archive, since weights don't compress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tarfile import BLOCKSIZE, GNU_FORMAT, TarInfo

from django.conf import settings

from apps.policies.models import Publication

CHUNK_BYTES = 1 << 20


def published_folder(publication: Publication) -> Path | None:
    """The folder that a worker wrote for this publication; None if `location` points anywhere else."""
    folder = Path(publication.location).resolve()
    root = Path(settings.PUBLISHED_DIR).resolve()
    return folder if folder.is_relative_to(root) and folder.name == publication.pk.hex and folder.is_dir() else None


def tar_of(folder: Path, *, within: str) -> Iterator[bytes]:
    """The files of a folder, under the name `within`, without links. A file that grows meanwhile is cut at its original size."""
    for path in sorted(entry for entry in folder.rglob("*") if entry.is_file() and not entry.is_symlink()):
        entry = TarInfo(f"{within}/{path.relative_to(folder)}")
        entry.size = path.stat().st_size
        entry.mtime = int(path.stat().st_mtime)
        yield entry.tobuf(format=GNU_FORMAT)
        remaining = entry.size
        with path.open("rb") as file:
            while remaining and (chunk := file.read(min(CHUNK_BYTES, remaining))):
                remaining -= len(chunk)
                yield chunk
        yield b"\0" * (remaining + -entry.size % BLOCKSIZE)
    yield b"\0" * 2 * BLOCKSIZE
