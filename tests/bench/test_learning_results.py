"""Results are stored by stage and seed, and docs/learning.md shows the stored ones."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from apps.demo import recipe
from bench.learning import __main__ as command
from bench.learning.harness import SIZES, WORLDS, Bench, Outcome
from bench.learning.pictures import FOLDER, PICTURES, STAGES, curves, gains
from bench.learning.results import KEPT, keep, read
from bench.learning.tables import PAGE, with_tables
from bench.learning.training import sft_config


def an_outcome(seed: int, gain: float) -> Outcome:
    interval = {"value": gain, "low": gain - 0.05, "high": gain + 0.05, "n": 300}
    more = {"gain": interval, "success": [(0, 0.4), (20, 0.55)]}
    return Outcome("grpo", seed, 0.4, 0.4 + gain, 300, 0.5, 0.6, seconds=168.4, peak_mb=2100.0, more=more)


def test_a_seed_that_is_run_again_takes_the_place_of_what_was_kept(tmp_path: Path) -> None:
    for seed, gain in ((4, 0.23), (3, 0.14), (4, 0.25)):
        keep(tmp_path, an_outcome(seed, gain))
    assert [(result["seed"], result["gain"]["value"]) for result in read(tmp_path, "grpo")] == [(3, 0.14), (4, 0.25)]
    assert read(tmp_path, "rloo") == []


def test_another_world_or_size_has_runs_and_results_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started_from = []

    def stage(bench: Bench) -> Outcome:
        started_from.append((bench.folder.name, sft_config(bench, "rows.jsonl")["model"]["scratch"]))
        return an_outcome(bench.seed, 0.1)

    monkeypatch.setitem(command.STAGES, "grpo", stage)
    monkeypatch.setenv("RESULTS", str(tmp_path))
    for size, world in (("small", "office"), ("large", "office"), ("large", "search")):
        assert command.run(["grpo"], [4], tmp_path, size, world) == 0
    assert started_from == [
        ("4", SIZES["small"]),
        ("4-large", SIZES["large"]),
        ("4-search-large", SIZES["large"]),
    ]
    for stage in ("grpo", "grpo-large", "grpo-search-large"):
        assert [result["stage"] for result in read(tmp_path, stage)] == [stage]


def test_a_first_model_trains_as_long_as_its_world_requires(tmp_path: Path) -> None:
    steps = {
        world: sft_config(Bench(tmp_path, 0, world=world), "rows.jsonl")["optimizer"]["max_steps"] for world in WORLDS
    }
    assert steps["search"] > steps["office"] == recipe.SFT["max_steps"]


def test_runs_take_the_tasks_of_their_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(_: Bench, folder: Path, *command: str) -> None:
        (folder / "report.json").write_text("{}")

    monkeypatch.setattr(Bench, "_call", finish)
    for world in WORLDS:
        Bench(tmp_path / world, 0, world=world).run("own", {"kind": "rollout", "tasks": {"count": 5}})
    configs = [json.loads((tmp_path / world / "own" / "run.json").read_text()) for world in WORLDS]
    assert [config["tasks"] for config in configs] == [{"count": 5}, {"environment": "search", "count": 5}]


def test_a_table_has_a_row_for_each_seed_and_one_for_all_from_three_on(tmp_path: Path) -> None:
    """For gains of 10, 20, and 30 points, the mean is 20 and the interval 20 ± 4.303 × 10 / √3."""
    for seed, gain in ((0, 0.1), (1, 0.2), (2, 0.3)):
        keep(tmp_path, an_outcome(seed, gain))
    page = "Before.\n<!-- results of grpo rloo -->\nold\n<!-- end of results -->\nAfter.\n"
    assert with_tables(page, tmp_path).splitlines()[4:] == [
        "| `grpo` | 0 | 40.0 % | 50.0 % (50.0 to 60.0) | +10.0 (+5.0 to +15.0) | 168 | 40, 55 % |",
        "| `grpo` | 1 | 40.0 % | 60.0 % (50.0 to 60.0) | +20.0 (+15.0 to +25.0) | 168 | 40, 55 % |",
        "| `grpo` | 2 | 40.0 % | 70.0 % (50.0 to 60.0) | +30.0 (+25.0 to +35.0) | 168 | 40, 55 % |",
        "| `grpo` | all 3 |  |  | +20.0 (−4.8 to +44.8) |  |  |",
        "<!-- end of results -->",
        "After.",
    ]


def test_a_table_may_be_of_some_seeds_alone_and_of_stages_without_a_curve(tmp_path: Path) -> None:
    for seed in (4, 5, 15):
        keep(
            tmp_path,
            replace(
                an_outcome(seed, 0.1), stage="dpo", more={"gain": an_outcome(seed, 0.1).more["gain"], "pairs": 215}
            ),
        )
    page = "<!-- results of dpo, seeds 5 to 14 -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines()[3:-1] == [
        "| `dpo` | 5 | 40.0 % | 50.0 % (50.0 to 60.0) | +10.0 (+5.0 to +15.0) | 168 | 215 pairs |",
    ]

    judged = {"gain": an_outcome(5, 0.1).more["gain"], "pairs": 9, "judgments": 27, "right": 0.894}
    keep(tmp_path, replace(an_outcome(5, 0.1), stage="human-dpo-majority", more=judged))
    page = "<!-- results of human-dpo-majority -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines()[3].endswith("| 168 | 9 pairs, 27 judgments, 89 % right |")


def test_stages_may_stand_side_by_side_with_a_column_for_each_seed(tmp_path: Path) -> None:
    for stage, seed, gain in (("human-dpo-once", 5, 0.1), ("human-dpo-once", 6, 0.2), ("human-dpo-majority", 6, 0.1)):
        more = {"gain": an_outcome(seed, gain).more["gain"], "pairs": 9, "judgments": 20 + seed, "right": 0.8}
        keep(tmp_path, replace(an_outcome(seed, gain), stage=stage, more=more))
    page = "<!-- results of human-dpo-once human-dpo-majority, side by side -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines()[1:-1] == [
        "| stage | judgments | correct labels | seed 5 | seed 6 | mean |",
        "| --- | --- | --- | --- | --- | --- |",
        "| `human-dpo-once` | 26 | 80 % | +10.0 (+5.0 to +15.0) | +20.0 (+15.0 to +25.0) | +15.0 |",
        "| `human-dpo-majority` | 26 | 80 % |  | +10.0 (+5.0 to +15.0) | +10.0 |",
    ]


def test_accuracies_have_a_column_for_each_choice_of_pairs_and_their_mean(tmp_path: Path) -> None:
    for seed, accuracy in ((10, 0.7), (11, 0.8)):
        more = {"accuracy": {"random-60": accuracy, "random-120": 0.75}}
        keep(tmp_path, replace(an_outcome(seed, 0.0), stage="active", n=250, more=more))
    page = "<!-- results of active -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines()[1:-1] == [
        "| seed | held-out pairs | 60 random | 120 random |",
        "| --- | --- | --- | --- |",
        "| 10 | 250 | 70.0 % | 75.0 % |",
        "| 11 | 250 | 80.0 % | 75.0 % |",
        "| mean | 500 | 75.0 % | 75.0 % |",
    ]


def test_gains_have_a_column_for_each_choice_of_pairs_and_their_mean(tmp_path: Path) -> None:
    for seed, gain in ((12, 0.1), (14, 0.2)):
        gains = {name: an_outcome(seed, gain).more["gain"] for name in ("random-60", "undecided-120")}
        keep(tmp_path, replace(an_outcome(seed, gain), stage="active-dpo", more={"gains": gains}))
    page = "<!-- results of active-dpo -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines()[1:-1] == [
        "| seed | first model | 60 random | 120 undecided |",
        "| --- | --- | --- | --- |",
        "| 12 | 40.0 % | +10.0 (+5.0 to +15.0) | +10.0 (+5.0 to +15.0) |",
        "| 14 | 40.0 % | +20.0 (+15.0 to +25.0) | +20.0 (+15.0 to +25.0) |",
        "| mean |  | +15.0 | +15.0 |",
    ]


def test_each_amount_of_preferences_has_a_row_with_its_curve(tmp_path: Path) -> None:
    share = {
        "pairs": 76,
        "ranked": {"value": 0.7, "n": 160},
        "beta": 0.04,
        "gain": an_outcome(10, 0.1).more["gain"],
        "curve": [(0, 0.0, -0.25, 0.4), (10, 0.125, 0.5, 0.55)],
    }
    keep(tmp_path, replace(an_outcome(10, 0.1), stage="over-optimization", more={"shares": {"third": share}}))
    page = "<!-- results of over-optimization -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines()[1:-1] == [
        "| seed | preferences | ranked correctly | KL penalty β | gain, points | KL per token, nats | learned reward | success |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| 10 | 76 | 70.0 % of 160 | 0.04 | +10.0 (+5.0 to +15.0) | 0.00, 0.12 | −0.25, 0.50 | 40, 55 % |",
    ]


def test_a_reward_models_row_compares_it_alone_and_beside_the_outcome(tmp_path: Path) -> None:
    both = {"after": 0.6, "gain": an_outcome(11, 0.2).more["gain"]}
    more = {**an_outcome(11, 0.1).more, "pairs": 228, "ranked": {"value": 0.7, "n": 160}, "mixed": both}
    keep(tmp_path, replace(an_outcome(11, 0.1), stage="human-grpo", more=more))
    page = "<!-- results of human-grpo -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines()[1:-1] == [
        "| seed | preferences | ranked correctly | first model | reward model alone | outcome and reward model |",
        "| --- | --- | --- | --- | --- | --- |",
        "| 11 | 228 | 70.0 % of 160 | 40.0 % | 50.0 %: +10.0 (+5.0 to +15.0) | 60.0 %: +20.0 (+15.0 to +25.0) |",
    ]


def test_reward_models_have_a_row_for_each_seed_and_their_mean(tmp_path: Path) -> None:
    for seed, f1 in ((11, 0.7), (12, 0.6)):
        keep(tmp_path, replace(an_outcome(seed, 0.1 * (seed - 10)), stage="reward_model", before=0.5, n=50, more={}))
        found = {"f1": f1, "with_error": {"value": 0.6, "n": 147}, "without_error": {"value": 0.8, "n": 213}}
        keep(tmp_path, replace(an_outcome(seed, 0.5), stage="prm", before=None, more={"first_error": found}))
    page = "<!-- results of reward_model -->\n<!-- end of results -->\n<!-- results of prm -->\n<!-- end of results -->"
    assert with_tables(page, tmp_path).splitlines() == [
        "<!-- results of reward_model -->",
        "| seed | ranked correctly | pairs |",
        "| --- | --- | --- |",
        "| 11 | 50.0 % (50.0 to 60.0) | 50 |",
        "| 12 | 60.0 % (50.0 to 60.0) | 50 |",
        "| mean | 55.0 % | 100 |",
        "<!-- end of results -->",
        "<!-- results of prm -->",
        "| seed | steps classified correctly | first error found | recognized as free of errors | F1 |",
        "| --- | --- | --- | --- | --- |",
        "| 11 | 90.0 % (50.0 to 60.0) | 60.0 % of 147 | 80.0 % of 213 | 0.70 |",
        "| 12 | 90.0 % (50.0 to 60.0) | 60.0 % of 147 | 80.0 % of 213 | 0.60 |",
        "| mean | 90.0 % |  |  | 0.65 |",
        "<!-- end of results -->",
    ]


def test_the_page_shows_what_is_kept() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "<!-- results of " in page
    assert with_tables(page, KEPT) == page


def test_the_pictures_show_what_is_kept() -> None:
    for name, draw in PICTURES.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == draw(KEPT)


def test_a_picture_has_a_mark_for_each_unseen_seed_and_a_mean_from_three_on(tmp_path: Path) -> None:
    for seed, gain in ((4, 0.5), (5, 0.1), (6, 0.2)):
        keep(tmp_path, an_outcome(seed, gain))
    of_two = gains(tmp_path)
    assert of_two.count('<circle class="one"') == 2
    assert 'class="mean"' not in of_two
    assert "2 seeds" in of_two

    keep(tmp_path, an_outcome(7, 0.3))
    of_three = gains(tmp_path)
    assert of_three.count('<circle class="one"') == 3
    assert of_three.count('class="mean"') == 1
    assert curves(tmp_path).count('class="seed"') == 3


def test_no_interval_is_drawn_over_the_names_of_the_stages() -> None:
    starts = re.findall(r'class="mean" d="M([\d.]+) ', gains(KEPT))
    assert len(starts) == len(STAGES)
    assert all(float(start) >= 260 for start in starts)
