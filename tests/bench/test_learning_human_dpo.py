"""DPO on the panel's votes, with a few steps and tasks per run."""

import json
from pathlib import Path

from bench.learning.stages import STAGES
from tests.bench.toy import Learned, Toy


def test_pairs_that_differ_in_progress_are_compared_with_all_pairs(tmp_path: Path) -> None:
    outcome = STAGES["human-step-dpo-progress-majority"](Learned(tmp_path, seed=0))
    every, fewer = (
        json.loads((tmp_path / f"human-step-dpo-{labels}.json").read_text())
        for labels in ("majority", "progress-majority")
    )
    assert {name for name in every if every[name] != fewer[name]} == {"data"}
    assert (
        len((tmp_path / "labels-progress-majority.jsonl").read_text().splitlines())
        == outcome.more["judgments"] / 3
        == 8
    )
    assert outcome.more["less_all"]["n"] == 300


def test_weighted_labels_are_compared_with_the_majority_of_the_same_votes(tmp_path: Path) -> None:
    outcome = STAGES["human-step-dpo-weighted"](Toy(tmp_path, seed=0))
    config = json.loads((tmp_path / "human-step-dpo-weighted" / "run.json").read_text())
    plain = json.loads((tmp_path / "human-step-dpo-majority" / "run.json").read_text())
    assert (config["kind"], config["scope"]) == ("dpo", "step")
    assert {name for name in config if config[name] != plain[name]} == {"data"}
    weights = {
        labels: [json.loads(line)["weight"] for line in (tmp_path / f"labels-{labels}.jsonl").read_text().splitlines()]
        for labels in ("majority", "weighted")
    }
    assert set(weights["majority"]) == {1.0}
    assert all(0 < weight < 1 for weight in weights["weighted"])
    assert outcome.stage == "human-step-dpo-weighted"
    assert outcome.more["pairs"] == len(weights["weighted"]) == outcome.more["judgments"] / 3
    assert outcome.more["less_majority"]["n"] == outcome.n == 10
    assert 0.5 < outcome.more["right"] <= 1


def test_three_votes_on_a_third_of_the_pairs_are_compared_with_one_on_each(tmp_path: Path) -> None:
    outcome = STAGES["human-dpo-third-majority"](Learned(tmp_path, seed=0))
    once, third = (
        (tmp_path / f"labels-{labels}.jsonl").read_text().splitlines() for labels in ("once", "third-majority")
    )
    assert outcome.more["judgments"] == 3 * len(third)
    assert abs(3 * len(third) - len(once)) <= 1
    assert outcome.more["less_once"]["n"] == 300
