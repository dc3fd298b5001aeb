"""The folder of a run's files, under RUNS_DIR, which the workers and the web processes share."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.conf import settings

LOG_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class RunFolder:
    """The files of one run (or batch of rollouts). The layout is the trainer's: see `python -m trainer --help`."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "run.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def log(self) -> Path:
        """Output of the child process, across all attempts."""
        return self.path / "log.txt"

    @property
    def model(self) -> Path:
        return self.path / "model"

    def kept_checkpoints(self) -> list[Path]:
        """The checkpoints that the trainer has kept: `checkpoints/checkpoint-<step>`."""
        return sorted(path for path in (self.path / "checkpoints").glob("checkpoint-*") if path.name[11:].isdigit())

    @property
    def lock(self) -> Path:
        """Locked by the child process for as long as it lives, so that no second one can write here."""
        return self.path / "lock"

    def free_bytes(self) -> int:
        """Free space on the disk that holds the folder (which may not exist yet)."""
        folder = self.path
        while not folder.exists():
            folder = folder.parent
        stat = os.statvfs(folder)
        return stat.f_bavail * stat.f_frsize

    def model_bytes(self) -> int:
        """The size of its checkpoints and its model, which a later attempt replaces."""
        files = [path for name in ("checkpoints", "model") for path in (self.path / name).rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files)

    @property
    def command_line(self) -> str:
        """The shell command that starts the run exactly as the worker does."""
        command = [*settings.TRAINER_COMMAND, str(self.config)]
        return f"cd {shlex.quote(str(settings.BASE_DIR))} && {shlex.join(command)}"


@dataclass(frozen=True)
class LogPart:
    """A part of the log, with the byte offset to continue from."""

    text: str
    end: int
    skipped: int
    """Bytes left out before this part."""


def folder_of(run_id: UUID) -> RunFolder:
    """The folder of the run or rollout batch with this id."""
    return RunFolder(Path(settings.RUNS_DIR) / str(run_id))


def read_log(
    folder: RunFolder, *, after: int | None = None, limit: int = LOG_TAIL_BYTES, is_growing: bool = False
) -> LogPart:
    """The log from byte `after` on (from its tail if None), at most its last `limit` bytes. An unreadable log is empty.

    While the log is growing, the part ends with a complete line: the rest of a line may change its start, or complete a character.
    """
    try:
        with folder.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = 0 if after is None else min(after, size)
            start = max(begin, size - limit)
            log.seek(start)
            data = log.read(limit)
    except OSError:
        return LogPart("", 0, 0)
    if start > begin and b"\n" in data:  # start with a complete line, too
        cut = data.index(b"\n") + 1
        start, data = start + cut, data[cut:]
    if is_growing and len(data) < limit:  # a longer line is shown in parts
        data = data[: data.rfind(b"\n") + 1]
    return LogPart(_plain(data.decode("utf-8", "replace")), start + len(data), start - begin)


def last_lines(folder: RunFolder, count: int = 30) -> list[str]:
    """The end of the log, for the card of a failure."""
    return read_log(folder, limit=16 * 1024).text.splitlines()[-count:]


def _plain(text: str) -> str:
    """The text as a terminal would leave it: only the last state of lines that overwrite themselves (progress bars)."""
    lines = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.replace("\0", "␀").split("\n"))
    return "\n".join(lines)
