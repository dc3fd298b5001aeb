"""Training and evaluation tasks of the stages are disjoint."""

import json
from pathlib import Path

import pytest

from bench.learning.human_grpo import human_grpo, human_grpo_masked
from bench.learning.over_optimization import over_optimization, over_optimization_success_first
from bench.learning.rounds import ROUNDS, dpo_rounds
from bench.learning.stages import STAGES, prm, process
from tests.bench.toy import Learned, Untrained


def tasks_in(file: Path) -> set[str]:
    return {json.loads(line)["task"]["key"] for line in file.read_text().splitlines()}


def test_runs_of_one_task_are_judged_on_one_side_only(tmp_path: Path) -> None:
    prm(Untrained(tmp_path, seed=0))
    learned, others = tasks_in(tmp_path / "judged.jsonl"), tasks_in(tmp_path / "judged-held-out.jsonl")
    assert (len(learned), len(others)) == (8, 2)
    assert not learned & others


def test_peoples_reward_model_is_the_whole_reward_of_one_run_and_a_part_of_anothers(tmp_path: Path) -> None:
    outcome = human_grpo(Learned(tmp_path, seed=0))
    rewards = {
        name: json.loads((tmp_path / f"human-grpo-{name}.json").read_text())["rewards"]["terms"]
        for name in ("learned-only", "mixed")
    }
    learned = {"component": "learned_outcome", "path": "../human-rm/model"}
    assert rewards["learned-only"] == [{**learned, "weight": 1.0}]
    assert rewards["mixed"] == [{"component": "outcome", "weight": 1.0}, {**learned, "weight": 0.4}]
    assert (outcome.stage, outcome.before, outcome.after, outcome.more["mixed"]["after"]) == (
        "human-grpo",
        0.5,
        0.5,
        0.5,
    )
    assert (outcome.more["ranked"]["value"], outcome.more["pairs"]) == (0.9, 8)


@pytest.mark.parametrize("name", ["progress", "success-first"])
def test_a_reward_model_of_fewer_pairs_is_compared_with_that_of_all(tmp_path: Path, name: str) -> None:
    outcome = STAGES[f"human-grpo-{name}"](Learned(tmp_path, seed=0))
    alone, fewer = (json.loads((tmp_path / f"human-grpo-{run}.json").read_text()) for run in ("learned-only", name))
    assert [term["path"] for term in fewer["rewards"]["terms"]] == [f"../{name}-rm/model"]
    assert {**fewer, "rewards": alone["rewards"]} == alone
    assert outcome.more["less_human_grpo"]["n"] == 300
    assert outcome.more["pairs"] == 8


def test_the_masked_run_differs_from_the_mixed_one_by_its_mask_alone(tmp_path: Path) -> None:
    outcome = human_grpo_masked(Learned(tmp_path, seed=0))
    mixed, masked = (json.loads((tmp_path / f"human-grpo-{name}.json").read_text()) for name in ("mixed", "masked"))
    assert masked == {**mixed, "mask_cut_off": True}
    assert (outcome.stage, outcome.more["less_unmasked"]["n"]) == ("human-grpo-masked", 300)


def test_policies_follow_reward_models_of_ever_fewer_preferences(tmp_path: Path) -> None:
    outcome = over_optimization(Learned(tmp_path, seed=0))
    everybody = (tmp_path / "people.jsonl").read_text().splitlines()
    for name, divisor in (("all", 1), ("third", 3), ("ninth", 9)):
        assert (tmp_path / f"people-{name}.jsonl").read_text().splitlines() == everybody[: len(everybody) // divisor]
        model, policy = (json.loads((tmp_path / f"{run}-{name}.json").read_text()) for run in ("over-rm", "over"))
        assert model["data"]["train"] == f"../people-{name}.jsonl"
        assert policy["rewards"]["terms"] == [
            {"component": "learned_outcome", "weight": 1.0, "path": f"../over-rm-{name}/model"}
        ]
    free, penalized = (json.loads((tmp_path / f"over-{name}.json").read_text()) for name in ("all", "all-penalized"))
    assert penalized == {**free, "beta": 0.04}
    assert (outcome.stage, outcome.more["shares"]["ninth"]["curve"]) == (
        "over-optimization",
        [(0, 0.5, 0.5, 0.5), (20, 0.5, 0.5, 0.5)],
    )


def test_a_policy_follows_a_reward_model_without_pairs_of_two_failures_as_far(tmp_path: Path) -> None:
    over_optimization(Learned(tmp_path, seed=0))
    outcome = over_optimization_success_first(Learned(tmp_path, seed=0))
    every, fewer = (json.loads((tmp_path / f"over-{name}.json").read_text()) for name in ("all", "success-first"))
    assert [term["path"] for term in fewer["rewards"]["terms"]] == ["../success-first-rm/model"]
    assert {**fewer, "rewards": every["rewards"]} == every
    assert (outcome.stage, outcome.more["shares"].keys()) == ("over-optimization-success-first", {"success-first"})


def test_each_round_learns_from_the_policy_before_it_and_all_cost_as_much_as_one_pass(tmp_path: Path) -> None:
    outcome = dpo_rounds(Learned(tmp_path, seed=0), stage="dpo-rounds", scope="step")
    configs = [json.loads((tmp_path / f"dpo-rounds-{number}.json").read_text()) for number in range(1, ROUNDS + 1)]
    played = [json.loads((tmp_path / f"dpo-rounds-own-{number}.json").read_text()) for number in range(1, ROUNDS + 1)]
    policies = ["../sft/model", "../dpo-rounds-1/model", "../dpo-rounds-2/model"]
    assert [config["model"]["path"] for config in configs] == policies
    assert [config["policy"]["model"]["path"] for config in played] == policies
    assert len({config["tasks"]["seed"] for config in played}) == ROUNDS
    assert {config["scope"] for config in configs} == {"step"}
    budget = len((tmp_path / "pairs.jsonl").read_text().splitlines())
    used = [len((tmp_path / f"dpo-rounds-own-{number}.jsonl").read_text().splitlines()) for number in (1, 2, 3)]
    assert used == [budget // ROUNDS] * ROUNDS
    assert (outcome.stage, outcome.after, outcome.more["rounds"]) == ("dpo-rounds", 0.5, [0.5, 0.5, 0.5])


def test_turn_credit_by_a_process_reward_model_differs_from_the_outcome_alone_in_nothing_else(tmp_path: Path) -> None:
    outcome = process(Learned(tmp_path, seed=0))
    with_it, alone = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("process", "grpo-success"))
    assert {name for name in with_it if with_it[name] != alone.get(name)} == {"rewards", "credit"}
    assert with_it["credit"] == "turn"
    assert with_it["rewards"]["terms"] == [
        *alone["rewards"]["terms"],
        {"component": "learned_process", "weight": 0.4, "path": "../prm/model"},
    ]
    assert outcome.more["less_outcome"]["n"] == 300
