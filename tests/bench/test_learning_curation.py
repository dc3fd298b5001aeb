"""The best half of the demonstrations: successes and short ones first, of each kind of task at each level."""

import json
from pathlib import Path

from bench.learning.curation import best_half
from bench.learning.stages import STAGES
from contract.trajectory import Outcome, Step, Task, Trajectory
from tests.bench.toy import Toy


def demonstration(name: str, *, success: bool, turns: int = 1, category: str = "book", level: str = "L1") -> Trajectory:
    step = Step([{"role": "user", "content": "Go on."}], {"role": "assistant", "content": name})
    task = Task(name, "Do it.", category=category, difficulty=level)
    return Trajectory(task, [step] * turns, outcome=Outcome(success=success), id=name)


def test_each_kind_of_task_keeps_its_share_and_its_best_in_their_order() -> None:
    demonstrations = [
        demonstration("failed", success=False),
        demonstration("long", success=True, turns=3),
        demonstration("short", success=True, turns=2),
        demonstration("failed again", success=False),
        demonstration("hard and failed", success=False, level="L3"),
        demonstration("harder and failed", success=False, turns=2, level="L3"),
        demonstration("of another kind", success=False, category="share"),
    ]
    assert [kept.id for kept in best_half(demonstrations)] == ["long", "short", "hard and failed"]


def test_the_stage_trains_on_them_from_random_weights(tmp_path: Path) -> None:
    bench = Toy(tmp_path, seed=0)
    outcome = STAGES["curation"](bench)
    curated, first = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("curated-sft", "sft"))
    assert {name for name in curated if curated[name] != first[name]} == {"data"}
    assert 20 < outcome.more["demonstrations"] <= len(bench.trajectories("demonstrations")) / 2
    assert outcome.more["gain"]["n"] == outcome.n == 10
