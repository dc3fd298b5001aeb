"""What a worker tells a trainer about tasks that a training run mustn't draw, since dataset versions are validated and tested with them:
`left_out_tasks.json` in the run's folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from contract.atomic_files import write_atomically

FILE = "left_out_tasks.json"


def read_left_out(folder: Path) -> frozenset[str]:
    """The tasks' keys; empty if the folder has no such file."""
    try:
        return frozenset(json.loads((folder / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return frozenset()


def write_left_out(keys: Iterable[str], folder: Path) -> None:
    """Raises OSError."""
    write_atomically(folder / FILE, json.dumps(list(keys)))
