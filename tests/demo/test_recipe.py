"""The recipe of a first model is one that runs take: from the form's settings, and from run.json."""

import pytest

from apps.common.environments import ENVIRONMENTS
from apps.demo import recipe
from contract.configs import run_config_from_json
from trainer.environments import environment_named


def test_the_demos_settings_are_those_of_the_bench():
    config = {"kind": "sft", "model": {"scratch": {}}, "data": {"train": "t"}, "optimizer": recipe.SFT}
    assert run_config_from_json(config).to_json()["optimizer"].items() >= recipe.SFT.items()


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_what_the_bench_asks_for_is_understood(kind: str):
    config = {"model": {"path": "m"}, **recipe.GRPO, "kind": kind, "tasks": {"levels": recipe.LEVELS}}
    assert run_config_from_json(config).kind == kind
    for optimizer in (recipe.DPO, recipe.REWARD_MODEL, recipe.PRM):
        run_config_from_json({"kind": "dpo", "model": {"path": "m"}, "data": {"train": "t"}, "optimizer": optimizer})


def test_the_levels_and_the_demonstrator_are_the_offices():
    assert set(recipe.LEVELS) <= set(ENVIRONMENTS["office"].levels)
    assert recipe.DEMONSTRATOR in environment_named("office").scripts
