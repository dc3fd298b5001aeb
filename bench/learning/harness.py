"""Shared by the stages: trainer runs in low-priority child processes, and their results."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apps.demo import recipe
from bench.learning.paired import Difference, difference
from contract.trajectory import Trajectory
from trainer.records import read_trajectories
from trainer.statistics import Proportion

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT_TASKS = 300
THREADS = os.environ.get("THREADS", "2")
NICENESS = 10
SIZES: dict[str, dict[str, Any]] = {"small": recipe.MODEL, "large": {"layers": 4, "hidden": 256, "intermediate": 512}}
"""Shapes of the first model: 0.7 and 2.9 million parameters."""
SMALL = "small"
WORLDS = ("office", "search")
"""Environments with a scripted demonstrator, and the levels of `recipe.LEVELS`."""
BRANCHES = "branches.jsonl"


@dataclass(frozen=True)
class Outcome:
    """The result of one stage with one seed. `before` and `after` are proportions, with the 95 % interval of `after`."""

    stage: str
    seed: int
    before: float | None
    """None if there is nothing to compare with."""
    after: float
    n: int
    low: float
    high: float
    seconds: float
    """Training time alone."""
    peak_mb: float
    more: dict[str, Any] = field(default_factory=dict)
    """Metrics specific to this stage."""

    def as_json(self) -> str:
        columns = asdict(self)
        more = columns.pop("more")
        return json.dumps({**columns, **more})


@dataclass(frozen=True)
class Bench:
    """One seed's folder of runs. Finished runs in it are reused, so that stages share what they start from."""

    folder: Path
    seed: int
    size: str = SMALL
    world: str = WORLDS[0]

    @property
    def suffix(self) -> str:
        """What tells its outcomes and its folder from those of the small model in the office."""
        return "".join(f"-{setting}" for setting in (self.world, self.size) if setting not in (WORLDS[0], SMALL))

    def run(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        """Run the trainer, on tasks of this bench's world, and return its report. Raises CalledProcessError; the run's log says why."""
        if "tasks" in config and self.world != WORLDS[0]:
            config = {**config, "tasks": {"environment": self.world, **config["tasks"]}}
        folder = self.folder / name
        report = folder / "report.json"
        if not report.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "run.json").write_text(json.dumps(config, indent=2))
            self._call(folder, "trainer", str(folder / "run.json"))
        content: dict[str, Any] = json.loads(report.read_text())
        return content

    def branches(self, name: str, config: dict[str, Any]) -> list[Trajectory]:
        """Continuations of other runs from their first errors; see `branches.py`. Raises CalledProcessError."""
        folder = self.folder / name
        if not (folder / BRANCHES).exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "branches.json").write_text(json.dumps(config, indent=2))
            self._call(folder, "bench.learning.branches", str(folder))
        return list(read_trajectories(folder / BRANCHES))

    def product(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        """The report of a training run in the running product, with the agent in its own process; see `product.py`. Raises CalledProcessError."""
        folder = self.folder / name
        report = folder / "report.json"
        if not report.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "product.json").write_text(json.dumps(config, indent=2))
            self._call(folder, "bench.learning.product", str(folder))
        content: dict[str, Any] = json.loads(report.read_text())
        return content

    def rewards(self, model: str, rollouts: str) -> dict[str, float]:
        """Rewards of the trajectories of a data file by the reward model of the run `model`, by trajectory id. Raises CalledProcessError."""
        folder = self.folder / model
        scores = folder / f"{rollouts}.scores"
        if not scores.exists():
            unfinished = scores.with_suffix(".part")
            self._call(folder, "trainer.score", str(folder / "model"), str(self.folder / rollouts), str(unfinished))
            unfinished.rename(scores)
        lines = scores.read_text(encoding="utf-8").splitlines()
        return {score["id"]: score["reward"] for score in map(json.loads, lines)}

    def _call(self, folder: Path, module: str, *arguments: str) -> None:
        with (folder / "log").open("ab") as log:
            subprocess.run(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": THREADS},
                stdout=log,
                stderr=subprocess.STDOUT,
                check=True,
                preexec_fn=lambda: os.nice(max(0, NICENESS - os.nice(0))),
            )

    def success(self, model: str) -> Proportion:
        """Success rate of the policy trained by the run `model` on held-out tasks of every level, sampled at temperature 1."""
        tasks = {"split": "held_out", "levels": recipe.LEVELS, "count": HELD_OUT_TASKS}
        report = self.play(f"{model}-held-out", model, tasks=tasks)
        return Proportion(**report["success"])

    def difference(self, before: str, after: str) -> Difference:
        """Difference of success on the held-out tasks between the policies of the runs `after` and `before`; both must have played them."""
        played = (self.trajectories(f"{model}-held-out") for model in (before, after))
        return difference(*({run.task.key: bool(run.outcome.success) for run in runs} for runs in played))

    def play(self, name: str, model: str, *, tasks: dict[str, Any], samples: int = 1) -> dict[str, Any]:
        """Run rollouts of a model. The trajectories are stored in `name`."""
        config = {
            "kind": "rollout",
            "policy": {"engine": "local", "model": {"path": f"../{model}/model"}, "sampling": recipe.SAMPLING},
            "tasks": tasks,
            "samples": samples,
            "parallel": 64,
            "budget": recipe.BUDGET,
            "seed": self.seed,
        }
        return self.run(name, config)

    def trajectories(self, name: str) -> list[Trajectory]:
        return list(read_trajectories(self.folder / name / "trajectories.jsonl"))

    def write(self, name: str, rows: list[dict[str, Any]]) -> str:
        """Write a data file; returns its path relative to a run's folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return f"../{name}"

    def curve(self, name: str, metric: str) -> list[tuple[int, float]]:
        """(step, value) for each measurement of `metric` in a run."""
        lines = (self.folder / name / "events.jsonl").read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines]
        measured = [event for event in events if event["kind"] == "metrics" and metric in event["values"]]
        return [(event["step"], event["values"][metric]) for event in measured]


def outcome(
    bench: Bench, stage: str, report: dict[str, Any], *, before: float | None, after: Proportion, **more: Any
) -> Outcome:
    """The outcome of a stage from a run's report and a proportion measured after it."""
    return Outcome(
        stage=stage,
        seed=bench.seed,
        before=before,
        after=after.value,
        n=after.n,
        low=after.low,
        high=after.high,
        seconds=report["seconds"],
        peak_mb=report["peak_memory_mb"],
        more=more,
    )
