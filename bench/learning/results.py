"""Stored results: one JSON Lines file per stage, one line per seed. `RESULTS=folder` of `python -m bench.learning` writes there."""

import json
from pathlib import Path
from typing import Any

from bench.learning.harness import Outcome

StoredOutcome = dict[str, Any]
"""An outcome as written by `Outcome.as_json`."""
KEPT = Path(__file__).parent / "results"


def keep(folder: Path, outcome: Outcome) -> None:
    """Store an outcome, replacing the previous one of this stage and seed."""
    by_seed = {result["seed"]: result for result in read(folder, outcome.stage)}
    by_seed[outcome.seed] = json.loads(outcome.as_json())
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(by_seed[seed]) + "\n" for seed in sorted(by_seed))
    file_of(folder, outcome.stage).write_text("".join(lines), encoding="utf-8")


def read(folder: Path, stage: str) -> list[StoredOutcome]:
    """The outcomes by seed; none if the stage was never run."""
    file = file_of(folder, stage)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def file_of(folder: Path, stage: str) -> Path:
    return folder / f"{stage}.jsonl"
