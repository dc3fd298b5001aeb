"""What the stages learn from and what they are measured on share no task."""

import json
from pathlib import Path
from typing import Any

from bench.learning.harness import Bench
from bench.learning.stages import prm
from contract.trajectory import Outcome, Step, Task, Trajectory

REPORT = {
    "seconds": 1.0,
    "peak_memory_mb": 1.0,
    "step_accuracy": {"value": 1.0, "low": 0.0, "high": 1.0, "n": 1},
    "first_error": {"f1": 1.0},
}


def rollout(task: str, sample: int) -> Trajectory:
    turn = Step([{"role": "user", "content": "Go on."}], {"role": "assistant", "content": f"{task} {sample}"})
    return Trajectory(Task(task, "Do it."), [turn], outcome=Outcome(success=False), id=f"{task}#{sample}")


class Untrained(Bench):
    """Its runs are finished at once; its rollouts ended in another order than they began, as many at once do."""

    def run(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        return REPORT

    def trajectories(self, name: str) -> list[Trajectory]:
        return [rollout(f"task {task}", sample) for sample in range(6) for task in range(10)]


def tasks_in(file: Path) -> set[str]:
    return {json.loads(line)["task"]["key"] for line in file.read_text().splitlines()}


def test_runs_of_one_task_are_judged_on_one_side_only(tmp_path: Path) -> None:
    prm(Untrained(tmp_path, seed=0))
    learnt, others = tasks_in(tmp_path / "judged.jsonl"), tasks_in(tmp_path / "judged-held-out.jsonl")
    assert (len(learnt), len(others)) == (8, 2)
    assert not learnt & others
