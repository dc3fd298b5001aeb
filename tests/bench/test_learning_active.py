"""Reward models trained on pairs chosen by an ensemble, with a few steps per run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.learning import active
from bench.learning.stages import STAGES
from contract.trajectory import Outcome, Step, Task, Trajectory
from tests.bench.toy import Learned


def rollout(name: str, *turns: tuple[str, float]) -> Trajectory:
    steps = [
        Step(
            [{"role": "user", "content": "Go on."}],
            {"role": "assistant", "content": content},
            info={"logprobs": [logprob / 2, logprob / 2]},
        )
        for content, logprob in turns
    ]
    return Trajectory(Task("t", "Do it."), steps, outcome=Outcome(success=False), id=name)


def candidate(name: str, better: Trajectory, worse: Trajectory) -> active.Candidate:
    return active.Candidate(better, worse, {"name": name})


def test_each_order_asks_first_where_its_reason_is_greatest() -> None:
    """Models that contradict each other are both uncertain and informative; an even decision is undecided."""
    start = ("search", -0.1)
    runs = [rollout("a", start, ("book", -0.7)), rollout("b", start, ("look", -0.7)), rollout("c", ("stop", -9.0))]
    even, clear = candidate("even", runs[0], runs[1]), candidate("clear", runs[0], runs[2])
    rewards = [{"a": 2.0, "b": 2.0, "c": 0.0}, {"a": 0.0, "b": 0.0, "c": 2.0}]
    scores = active.orders(rewards)
    assert scores["uncertain"](clear) > scores["uncertain"](even) == 0
    assert scores["informative"](clear) > scores["informative"](even) == pytest.approx(0)
    assert scores["undecided"](even) == 0 > scores["undecided"](clear) == pytest.approx(-8.9)


class Recorded(Learned):
    """Rollouts have log-probabilities, as a policy's own do, and reward models prefer any of them."""

    def trajectories(self, name: str) -> list[Trajectory]:
        logged = {"logprobs": [-0.5]}
        return [
            replace(run, steps=[replace(step, info=logged) for step in run.steps]) for run in super().trajectories(name)
        ]

    def rewards(self, model: str, rollouts: str) -> dict[str, float]:
        runs = [json.loads(line) for line in (self.folder / rollouts).read_text().splitlines()]
        return {run["id"]: len(f"{model}{run['id']}") % 7 for run in runs}


def test_half_of_the_pairs_are_chosen_and_the_first_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active, "FIRST", 5)
    outcome = STAGES["active"](Recorded(tmp_path, seed=0))
    asked = {
        name: (tmp_path / f"active-{name}.jsonl").read_text().splitlines()
        for name in ("random-5", "random-10", "random-20", "uncertain-10", "informative-10", "undecided-10")
    }
    assert {name: len(lines) for name, lines in asked.items()} == {name: int(name.split("-")[1]) for name in asked}
    assert all(lines[:5] == asked["random-5"] for lines in asked.values())
    assert all(len(set(lines)) == len(lines) for lines in asked.values())
    assert outcome.more["accuracy"] == dict.fromkeys(asked, 0.9)
    assert (outcome.before, outcome.after, outcome.n) == (0.9, 0.9, 6)


def test_policies_learn_from_each_choice_for_as_many_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active, "FIRST", 5)
    outcome = STAGES["active-dpo"](Recorded(tmp_path, seed=0))
    choices = ("random-5", "random-10", "random-20", "uncertain-10", "informative-10", "undecided-10")
    configs = {name: json.loads((tmp_path / f"active-dpo-{name}.json").read_text()) for name in choices}
    assert {name: config["data"]["train"] for name, config in configs.items()} == {
        name: f"../active-{name}.jsonl" for name in choices
    }
    assert {config["optimizer"]["max_steps"] for config in configs.values()} == {active.DPO_STEPS}
    assert set(outcome.more["gains"]) == set(choices)
