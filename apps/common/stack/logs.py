"""Log files of the parts: opened for appending, rotated, and quoted when a part fails."""

from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 20 * 1024**2


def open_log(path: Path) -> BinaryIO:
    """Open a log for appending. A large log is rotated to `<name>.1`, replacing the previous one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > MAX_BYTES:
        path.replace(path.with_suffix(path.suffix + ".1"))
    return path.open("ab")


def last_lines(path: Path, count: int = 15) -> str:
    """The end of a log, indented for a message; at most 16 KB of it is read."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 16_384))
            lines = log.read().decode(errors="replace").splitlines()[-count:]
    except OSError:
        lines = []
    return "\n".join(f"    {line}" for line in lines) or "    (its log is empty)"
