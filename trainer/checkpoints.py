"""Atomic checkpoints: complete, or ignored.

A checkpoint is a folder `checkpoints/checkpoint-<step>`. When everything in it is on disk, `complete.json` is added with the size of
every file. Resuming takes the newest folder whose files still have those sizes, and ignores the others: a kill at any
time costs at most the steps since the last one.
"""

import json
import os
import shutil
from pathlib import Path

MARKER = "complete.json"
PREFIX = "checkpoint-"


def mark_complete(checkpoint: Path, *, config_hash: str) -> None:
    """Mark a checkpoint complete. Call after everything is written."""
    sizes = {str(path.relative_to(checkpoint)): path.stat().st_size for path in files_in(checkpoint)}
    for path in files_in(checkpoint):
        to_disk(path)
    unfinished = checkpoint / f"{MARKER}.part"
    unfinished.write_text(json.dumps({"config_hash": config_hash, "sizes": sizes}, indent=2))
    to_disk(unfinished)
    os.replace(unfinished, checkpoint / MARKER)


def is_complete(checkpoint: Path) -> bool:
    try:
        sizes = json.loads((checkpoint / MARKER).read_text())["sizes"]
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def newest_complete(folder: Path) -> Path | None:
    """The checkpoint to resume from, or None."""
    return next((path for path in newest_first(folder) if is_complete(path)), None)


def made_by(checkpoint: Path) -> str:
    """The hash of the configuration that saved a complete checkpoint."""
    return str(json.loads((checkpoint / MARKER).read_text())["config_hash"])


def remove_old(folder: Path, *, keep: int) -> None:
    """Remove all but the newest `keep` complete checkpoints, and the remains of unfinished ones.

    The marker is deleted first, so that a kill midway leaves nothing that looks complete.
    """
    complete = [path for path in newest_first(folder) if is_complete(path)]
    for path in newest_first(folder):
        if path not in complete[:keep]:
            (path / MARKER).unlink(missing_ok=True)
            shutil.rmtree(path)


def remove_unfinished(folder: Path) -> None:
    """Remove the remains of incomplete checkpoints."""
    for path in newest_first(folder):
        if not (path / MARKER).exists():
            shutil.rmtree(path, ignore_errors=True)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(PREFIX))


def newest_first(folder: Path) -> list[Path]:
    checkpoints = [path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdecimal()]
    return sorted(checkpoints, key=step_of, reverse=True)


def files_in(checkpoint: Path) -> list[Path]:
    return [path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path.name != MARKER]


def to_disk(path: Path) -> None:
    """Flush a file to disk, so that it survives a power failure."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
