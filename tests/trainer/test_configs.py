"""`run.json` is written by people too: every mistake is named with its field and what was expected."""

import ast
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from trainer import configs
from trainer.configs import (
    DpoConfig,
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
from trainer.failures import ConfigFailure
from trainer.validation import InvalidField

UNION_TAGS = ("tag", "kind", "engine", "component")
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
        ({**DPO, "optimizer": {"batch_size": 0}}, "optimizer.batch_size: got 0, expected 1 or more"),
        ({**DPO, "optimizer": {"batch_size": True}}, "optimizer.batch_size: got True (bool), expected a whole number"),
        ({**DPO, "beta": 0}, "beta: got 0.0, expected above 0"),
        ({**DPO, "lora": {"targets": ["q_proj", 1]}}, "lora.targets[1]: got 1 (int), expected text"),
        ({**DPO, "model": {}}, "model.path: give either a path (folder or hub id) or scratch"),
        ({**DPO, "model": {"scratch": {"heads": 5}}}, "model.scratch.heads: 5 does not divide hidden = 192"),
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
    with pytest.raises(InvalidField) as refused:
        run_config_from_json(data)
    assert message in refused.value.message


def test_a_near_miss_is_suggested():
    with pytest.raises(InvalidField) as refused:
        run_config_from_json({**DPO, "optimiser": {}})
    assert refused.value.advice == "Did you mean 'optimizer'?"


def test_python_is_held_to_the_same_rules_as_json():
    with pytest.raises(InvalidField, match="warmup_steps: got -1, expected 0 or more"):
        OptimizerConfig(warmup_steps=-1)
    with pytest.raises(InvalidField, match="scratch: a policy without training"):
        LocalPolicy(model=ModelConfig(scratch=ScratchConfig()))


def test_the_hash_changes_with_what_changes_the_result_and_with_nothing_else():
    config = run_config_from_json(DPO)
    assert isinstance(config, DpoConfig)
    assert config_hash(config) == config_hash(replace(config, resume=False))
    assert config_hash(config) != config_hash(replace(config, seed=1))


def test_every_field_is_documented_where_it_is_declared():
    undocumented = []
    sources = [path.read_text() for path in Path(configs.__file__).parent.glob("*.py")]
    for cls in ast.walk(ast.parse("\n".join(sources))):
        body = cls.body if isinstance(cls, ast.ClassDef) else []
        for statement, after in pairwise([*body, ast.Pass()]):
            is_field = isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) not in UNION_TAGS
            if is_field and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                undocumented.append(ast.unparse(statement))
    assert undocumented == []


def test_a_file_that_is_missing_or_no_json_is_a_configuration_failure(tmp_path: Path):
    with pytest.raises(ConfigFailure, match="Cannot read"):
        read_run_config(tmp_path / "run.json")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ConfigFailure, match="is no JSON"):
        read_run_config(tmp_path / "run.json")


def test_defaults_are_spelled_out_in_the_stored_file(tmp_path: Path):
    config = SftConfig.from_json({"kind": "sft", "model": {"path": "m"}, "data": {"train": "t"}})
    write_run_config(config, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["optimizer"]["learning_rate"] == 1e-5
