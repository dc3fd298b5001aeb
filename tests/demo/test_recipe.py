"""The recipe of a first model consists of valid settings, in the form and in run.json."""

from typing import Any

import pytest

from apps.common.environments import ENVIRONMENTS
from apps.demo import recipe
from apps.training.presets import PRESETS, rules_kept
from contract.configs import TrainingConfig, run_config_from_json
from contract.configs.paths import at
from trainer.environments import environment_named


def test_the_demos_settings_are_those_of_the_bench():
    config = {"kind": "sft", "model": {"scratch": {}}, "data": {"train": "t"}, "optimizer": recipe.SFT}
    assert run_config_from_json(config).to_json()["optimizer"].items() >= recipe.SFT.items()


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_online_training_goes_by_the_rules_of_the_presets(kind: str):
    config = run_config_from_json({"model": {"path": "m"}, **recipe.ONLINE, "kind": kind})
    assert isinstance(config, TrainingConfig)
    assert [rule.title for rule in rules_kept(config)] == [
        "Outcome measure",
        "Mask cut-off turns",
        "Learning rate schedule",
        "Keep the best weights",
    ]
    standard = PRESETS["standard"].config(algorithm=kind, method="full", parameters=700_000)
    for setting in ("optimizer.max_steps", "optimizer.learning_rate"):
        assert at(config, setting) == standard["optimizer"][setting.partition(".")[2]]
    assert (
        config.rows_per_step
        == 64
        == standard["optimizer"]["batch_size"] * standard["optimizer"]["gradient_accumulation"]
    )


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
@pytest.mark.parametrize("online", [recipe.ONLINE, recipe.SHORT])
def test_what_the_bench_asks_for_is_understood(kind: str, online: dict[str, Any]):
    config = {"model": {"path": "m"}, **online, "kind": kind, "tasks": {"levels": recipe.LEVELS}}
    assert run_config_from_json(config).kind == kind
    for optimizer in (recipe.DPO, recipe.REWARD_MODEL, recipe.PRM):
        run_config_from_json({"kind": "dpo", "model": {"path": "m"}, "data": {"train": "t"}, "optimizer": optimizer})


def test_the_levels_and_the_demonstrator_are_the_offices():
    assert set(recipe.LEVELS) <= set(ENVIRONMENTS["office"].levels)
    assert recipe.DEMONSTRATOR in environment_named("office").scripts
