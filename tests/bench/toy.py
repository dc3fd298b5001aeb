"""Benches for tests: with a few steps and tasks per run in this process, or without training."""

import json
from dataclasses import replace
from typing import Any

from bench.learning.harness import Bench
from bench.learning.paired import Difference
from contract.trajectory import Outcome, Step, Task, Trajectory
from tests.trainer.runs import run_here
from trainer.failures import ExitCode
from trainer.statistics import Proportion

REPORT = {
    "seconds": 1.0,
    "peak_memory_mb": 1.0,
    "step_accuracy": {"value": 1.0, "low": 0.0, "high": 1.0, "n": 1},
    "first_error": {"f1": 1.0},
}


class Toy(Bench):
    """Truncated training runs in this process."""

    def run(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        folder = self.folder / name
        if not (folder / "report.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            if "optimizer" in config:
                config = {
                    **config,
                    "optimizer": {**config["optimizer"], "max_steps": 2, "batch_size": 2, "warmup_steps": 0},
                }
            if "tasks" in config:
                at_most = 60 if config.get("policy", {}).get("engine") == "scripted" else 10
                config = {**config, "tasks": {**config["tasks"], "count": min(at_most, config["tasks"]["count"])}}
            assert run_here(folder, config) == ExitCode.FINISHED
        report: dict[str, Any] = json.loads((folder / "report.json").read_text())
        return report


def rollout(task: str, sample: int) -> Trajectory:
    turn = Step([{"role": "user", "content": "Go on."}], {"role": "assistant", "content": f"{task} {sample}"})
    return Trajectory(Task(task, "Do it."), [turn], outcome=Outcome(success=False), id=f"{task}#{sample}")


class Untrained(Bench):
    """A bench whose runs finish immediately, and whose rollouts end in a different order than they began, as concurrent ones do."""

    def run(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        return REPORT

    def trajectories(self, name: str) -> list[Trajectory]:
        return [rollout(f"task {task}", sample) for sample in range(6) for task in range(10)]


class Learned(Untrained):
    """Every run echoes its request, and a policy succeeds at half of the tasks."""

    def run(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{name}.json").write_text(json.dumps(config))
        ranked = {"value": 0.9, "low": 0.8, "high": 1.0, "n": 6}
        return {**REPORT, "held_out_accuracy": ranked, "rows": {"train": 8, "policy_tokens": 64}, "rollouts": 64}

    def success(self, model: str) -> Proportion:
        return Proportion(0.5, 0.4, 0.6, 300)

    def difference(self, before: str, after: str) -> Difference:
        return Difference(0.0, -0.1, 0.1, 300)

    def curve(self, name: str, metric: str) -> list[tuple[int, float]]:
        return [(0, 0.5), (20, 0.5)]

    def trajectories(self, name: str) -> list[Trajectory]:
        def attempt(task: int, sample: int) -> Trajectory:
            return replace(rollout(f"task {task}", sample), outcome=Outcome(success=sample % 2 == 0))

        return [attempt(task, sample) for sample in range(6) for task in range(10)]
