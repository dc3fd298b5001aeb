"""`run.json` is also written by people: every mistake is reported with its field and what was expected."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from contract.configs import (
    Config,
    DpoConfig,
    GrpoConfig,
    InvalidConfig,
    LocalPolicy,
    ModelConfig,
    OptimizerConfig,
    RolloutConfig,
    ScratchConfig,
    ScriptedPolicy,
    SftConfig,
    config_hash,
    read_run_config,
    run_config_from_json,
    write_run_config,
)
from contract.configs.fields import added_fields

UNION_TAGS = ("kind", "engine", "component")
EARLIER: list[dict[str, Any]] = json.loads((Path(__file__).parent / "earlier_runs.json").read_text())
"""A run.json of each kind, as written before configs were pydantic classes, with the hash that it had."""
DPO: dict[str, Any] = {"kind": "dpo", "model": {"path": "base"}, "data": {"train": "train.jsonl"}}


def test_kind_chooses_the_class_and_defaults_fill_the_rest():
    config = run_config_from_json(DPO)
    assert isinstance(config, DpoConfig)
    assert (config.beta, config.optimizer.batch_size, config.lora, config.resume) == (0.1, 8, None, True)


def test_the_engine_chooses_the_policy():
    config = run_config_from_json({"kind": "rollout", "policy": {"engine": "scripted", "script": "hasty"}})
    assert isinstance(config, RolloutConfig)
    assert config.policy == ScriptedPolicy(script="hasty")


@pytest.mark.parametrize(
    "config",
    [
        run_config_from_json({**DPO, "lora": {"rank": 4, "targets": ["q_proj", "v_proj"]}}),
        run_config_from_json({"kind": "sft", "model": {"scratch": {}}, "data": {"train": "t", "validation": "v"}}),
        run_config_from_json({"kind": "rollout", "policy": {"engine": "local", "model": {"path": "m"}}}),
        run_config_from_json({"kind": "rollout", "policy": {"engine": "server", "url": "http://h/v1", "model": "m"}}),
    ],
)
def test_a_stored_config_reads_back_the_same(tmp_path: Path, config: Any):
    write_run_config(config, tmp_path / "run.json")
    assert read_run_config(tmp_path / "run.json") == config


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "kind: got nothing, expected 'sft' or 'dpo' or"),
        ([], "got [] (list), expected an object with 'kind'"),
        ({**DPO, "kind": "ppo"}, "kind: got 'ppo' (str), expected 'sft' or"),
        ({"kind": "dpo", "data": {"train": "t"}}, "model: missing"),
        ({**DPO, "optimizer": {"learning_rte": 1}}, "optimizer.learning_rte: unknown field"),
        (
            {**DPO, "optimizer": {"learning_rate": "fast"}},
            "optimizer.learning_rate: got 'fast' (str), expected a number",
        ),
        ({**DPO, "optimizer": {"learning_rate": float("nan")}}, "expected a number"),
        ({**DPO, "optimizer": {"batch_size": 0}}, "optimizer.batch_size: got 0, expected 1 to 1,024"),
        ({**DPO, "optimizer": {"batch_size": True}}, "optimizer.batch_size: got True (bool), expected a whole number"),
        ({**DPO, "beta": 0}, "beta: got 0, expected 0.001 to 10"),
        ({**DPO, "lora": {"targets": ["q_proj", 1]}}, "lora.targets[1]: got 1 (int), expected text"),
        ({**DPO, "model": {}}, "model.path: give either a path (folder or hub id) or scratch"),
        ({**DPO, "model": {"scratch": {"heads": 5}}}, "model.scratch.heads: 5 doesn't divide hidden = 192"),
        (
            {"kind": "rollout", "policy": {"engine": "magic"}},
            "policy.engine: got 'magic' (str), expected 'scripted' or",
        ),
        (
            {"kind": "rollout", "policy": {"engine": "server", "url": "host:1", "model": "m"}},
            "policy.url: got 'host:1', expected an http:// or https:// address",
        ),
    ],
)
def test_a_mistake_is_named_with_its_field(data: Any, message: str):
    with pytest.raises(InvalidConfig) as refused:
        run_config_from_json(data)
    assert message in refused.value.message


def test_a_near_miss_is_suggested():
    with pytest.raises(InvalidConfig) as refused:
        run_config_from_json({**DPO, "optimiser": {}})
    assert refused.value.advice == "Did you mean 'optimizer'?"


def test_python_is_held_to_the_same_rules_as_json():
    with pytest.raises(ValidationError, match="warmup_steps"):
        OptimizerConfig(warmup_steps=-1)
    with pytest.raises(ValidationError, match="scratch: an untrained policy"):
        LocalPolicy(model=ModelConfig(scratch=ScratchConfig()))


def test_the_hash_changes_with_what_changes_the_result_and_with_nothing_else():
    config = run_config_from_json(DPO)
    assert isinstance(config, DpoConfig)
    assert config_hash(config) == config_hash(config.replaced(resume=False))
    assert config_hash(config) == config_hash(config.replaced(tracker="mlflow"))
    assert config_hash(config) != config_hash(config.replaced(seed=1))


def test_every_mistake_is_named_at_once():
    wrong = {**DPO, "beta": 0, "optimizer": {"batch_size": "many", "learning_rte": 1}, "seed": 10**5000}
    with pytest.raises(InvalidConfig) as refused:
        run_config_from_json(wrong)
    assert [problem.field for problem in refused.value.problems] == [
        "optimizer.batch_size",
        "optimizer.learning_rte",
        "seed",
        "beta",
    ]
    assert "seed: got a number of about 5,000 digits, expected 0 to 2,147,483,647" in refused.value.message


def test_mistakes_within_a_list_of_terms_are_named_by_their_place():
    terms: list[Any] = [{"component": "nope"}, {"component": "outcome", "weight": -1}, 3]
    with pytest.raises(InvalidConfig) as refused:
        run_config_from_json({"kind": "grpo", "model": {"path": "m"}, "rewards": {"terms": terms}})
    assert [problem.field for problem in refused.value.problems] == [
        "rewards.terms[0].component",
        "rewards.terms[1].weight",
        "rewards.terms[2]",
    ]


def test_lists_of_settings_are_short_and_of_very_many_mistakes_the_first_are_told():
    """Formatting each term and each mistake takes a while, and a request may contain a hundred thousand."""
    many = [{"component": "format", "name": str(number)} for number in range(60)]
    tasks = {"levels": ["L1"] * 101}
    with pytest.raises(InvalidConfig) as refused:
        run_config_from_json(
            {"kind": "grpo", "model": {"path": "m"}, "rewards": {"terms": many}, "tasks": tasks}
            | {f"unknown {number}": 1 for number in range(60)}
        )
    assert "tasks.levels: got 101, expected at most 100" in refused.value.message
    assert "rewards.terms: got 60, expected at most 50" in refused.value.message
    assert refused.value.message.endswith("; and 12 more mistakes")


@pytest.mark.parametrize("run", EARLIER, ids=[run["run"]["kind"] for run in EARLIER])
def test_files_of_earlier_runs_read_back_and_keep_their_hash(run: dict[str, Any]):
    """A resumed training run compares the hash in its checkpoints with that of its run.json; rollouts have no checkpoints."""
    config = run_config_from_json(run["run"])
    assert as_far_as(run["run"], config.to_json()) == run["run"]
    if run["run"]["kind"] != "rollout":
        assert config.to_json().keys() - run["run"].keys() <= added_fields(type(config)).keys()
        assert config_hash(config) == run["hash"]


def as_far_as(known: Any, value: Any) -> Any:
    """`value` without the settings that aren't in `known`."""
    if not isinstance(known, dict) or not isinstance(value, dict):
        return value
    return {name: as_far_as(known[name], item) for name, item in value.items() if name in known}


def test_every_field_is_documented_where_it_is_declared():
    undocumented = [
        f"{cls.__name__}.{name}"
        for cls in all_configs(Config)
        for name, field in cls.model_fields.items()
        if not field.description and name not in UNION_TAGS
    ]
    assert undocumented == []


def all_configs(cls: type[Config]) -> list[type[Config]]:
    return [config for sub in cls.__subclasses__() for config in (sub, *all_configs(sub)) if is_ours(config)]


def is_ours(cls: type[Config]) -> bool:
    return cls.__module__.startswith("contract.")


def test_a_file_that_is_missing_or_no_json_is_a_configuration_failure(tmp_path: Path):
    with pytest.raises(InvalidConfig, match="Cannot read"):
        read_run_config(tmp_path / "run.json")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InvalidConfig, match="isn't JSON"):
        read_run_config(tmp_path / "run.json")


def test_defaults_are_spelled_out_in_the_stored_file(tmp_path: Path):
    config = SftConfig.from_json({"kind": "sft", "model": {"path": "m"}, "data": {"train": "t"}})
    write_run_config(config, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["optimizer"]["learning_rate"] == 1e-5


def test_an_epoch_plays_every_task_however_often_its_rollouts_are_used():
    online = {"kind": "grpo", "model": {"path": "m"}, "samples": 4}
    once, twice = (run_config_from_json({**online, "updates": updates}) for updates in (1, 2))
    assert isinstance(once, GrpoConfig)
    assert isinstance(twice, GrpoConfig)
    assert (once.steps(12 * 4), twice.steps(12 * 4)) == (6, 12)
    assert twice.replaced(optimizer=OptimizerConfig(max_steps=5)).steps(12 * 4) == 5
