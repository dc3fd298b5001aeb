"""Folders that are complete or absent."""

import os
import shutil
from pathlib import Path


class AtomicFolder:
    """A folder that appears under its name only when complete; on failure, nothing is left."""

    def __init__(self, target: Path) -> None:
        self.place = target
        self.unfinished = target.with_name(target.name + ".part")

    def __enter__(self) -> Path:
        shutil.rmtree(self.unfinished, ignore_errors=True)
        self.unfinished.mkdir()
        return self.unfinished

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            shutil.rmtree(self.unfinished, ignore_errors=True)
            return
        shutil.rmtree(self.place, ignore_errors=True)
        os.rename(self.unfinished, self.place)
