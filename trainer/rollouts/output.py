"""The file that trajectories go to: appended line by line, never holding one twice."""

import json
from pathlib import Path

from contract.trajectory import Trajectory
from trainer.events import cut_broken_tail
from trainer.records import read_lines


class TrajectoryFile:
    """Opens the file for appending; a line that a killed run left unfinished is cut off first."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        cut_broken_tail(path)
        self.path = path
        self.ids = {row["id"] for _, row in read_lines(path)} if path.exists() else set()
        # A lone surrogate, which JSON can hold and UTF-8 cannot, is written as the escape that it is in JSON.
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")

    def append(self, trajectory: Trajectory) -> None:
        self._file.write(json.dumps(trajectory.to_json(), ensure_ascii=False) + "\n")
        self._file.flush()
        self.ids.add(trajectory.id)

    def close(self) -> None:
        self._file.close()
