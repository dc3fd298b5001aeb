"""What the stages share: runs of the trainer in a child of low priority, and success on held-out tasks."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apps.demo import recipe
from trainer.statistics import Proportion

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT_TASKS = 300
THREADS = "1"


@dataclass(frozen=True)
class Outcome:
    """What one stage did with one seed."""

    stage: str
    seed: int
    before: float
    after: float
    n: int
    low: float
    high: float
    seconds: float
    peak_mb: float
    more: dict[str, Any] = field(default_factory=dict)
    """What only this stage measures."""

    def as_json(self) -> str:
        facts = asdict(self)
        return json.dumps({**facts, **facts.pop("more"), "more": None} | {"more": None}, ensure_ascii=False)


@dataclass(frozen=True)
class Bench:
    """One seed's folder of runs. A run that is finished there is not done again."""

    folder: Path
    seed: int

    def run(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        """The report of a run. Raises CalledProcessError; the run's log says why."""
        folder = self.folder / name
        report = folder / "report.json"
        if not report.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "run.json").write_text(json.dumps(config, indent=2))
            with (folder / "log").open("ab") as log:
                subprocess.run(
                    [sys.executable, "-m", "trainer", str(folder / "run.json")],
                    cwd=ROOT,
                    env={**os.environ, "OMP_NUM_THREADS": THREADS},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=True,
                    preexec_fn=lambda: os.nice(10),
                )
        found: dict[str, Any] = json.loads(report.read_text())
        return found

    def success(self, model: str, *, count: int = HELD_OUT_TASKS) -> Proportion:
        """How often the policy in `model` succeeds on held-out tasks of every level, sampled at temperature 1."""
        report = self.rollouts(f"{model}-held-out", model, split="held_out", count=count, samples=1, seed=0)
        return Proportion(**report["success"])

    def rollouts(self, name: str, model: str, *, split: str, count: int, samples: int, seed: int) -> dict[str, Any]:
        """Let a model play; the trajectories lie in `<name>/trajectories.jsonl`."""
        config = {
            "kind": "rollout",
            "policy": {"engine": "local", "model": {"path": f"../{model}/model"}, "sampling": recipe.SAMPLING},
            "tasks": {"split": split, "count": count, "seed": seed},
            "samples": samples,
            "parallel": 100,
            "budget": recipe.BUDGET,
            "seed": seed,
        }
        return self.run(name, config)
