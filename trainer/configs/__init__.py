"""What `run.json` may say: one frozen dataclass for each kind of run.

    {"kind": "sft",          "model": {"scratch": {}},         "data": {"train": "demonstrations.jsonl"}}
    {"kind": "dpo",          "model": {"path": "../1/model"},  "data": {"train": "train.jsonl", "validation": "validation.jsonl"}}
    {"kind": "kto",          "model": {"path": "../1/model"},  "data": {"train": "unpaired.jsonl"}}
    {"kind": "reward_model", "model": {"path": "Qwen/Qwen3-0.6B"}, "lora": {"rank": 16}, "data": {"train": "train.jsonl"}}
    {"kind": "process_reward_model", "model": {"path": "../1/model"}, "data": {"train": "steps.jsonl"}}
    {"kind": "grpo",         "model": {"path": "../1/model"},  "tasks": {"environment": "office", "levels": ["L1", "L2"]}}
    {"kind": "continuation", "step": 3, "policy": {"engine": "local", "model": {"path": "../2/model"}}}
    {"kind": "star",         "model": {"path": "../1/model"},  "tasks": {"environment": "office", "count": 200}, "rounds": 2}
    {"kind": "rollout",      "tasks": {"environment": "office", "count": 50}, "policy": {"engine": "local", "model": {"path": "../2/model"}}}

Everything else has the default that its class below states. Paths are relative to the folder of `run.json`. Unknown fields,
wrong types and values out of range are refused by name.
"""

import hashlib
import json
from pathlib import Path

from trainer.configs.continuing import ContinuationConfig
from trainer.configs.models import ModelConfig, Precision, ScratchConfig
from trainer.configs.online import GrpoConfig, OnlineConfig, PracticeConfig, RlooConfig
from trainer.configs.rewards import RewardsConfig
from trainer.configs.rollouts import (
    Budget,
    LocalPolicy,
    PolicyConfig,
    RolloutConfig,
    Sampling,
    ScriptedPolicy,
    ServerPolicy,
    TasksConfig,
)
from trainer.configs.star import StarConfig
from trainer.configs.training import (
    CheckpointConfig,
    DataConfig,
    DpoConfig,
    FileTrainingConfig,
    KtoConfig,
    LoraConfig,
    OptimizerConfig,
    ProcessRewardModelConfig,
    RewardModelConfig,
    SftConfig,
    TrainingConfig,
)
from trainer.failures import ConfigFailure
from trainer.validation import Checked, choose

__all__ = [
    "Budget",
    "CheckpointConfig",
    "ContinuationConfig",
    "DataConfig",
    "DpoConfig",
    "FileTrainingConfig",
    "GrpoConfig",
    "KtoConfig",
    "LocalPolicy",
    "LoraConfig",
    "ModelConfig",
    "OnlineConfig",
    "OptimizerConfig",
    "PolicyConfig",
    "PracticeConfig",
    "Precision",
    "ProcessRewardModelConfig",
    "RewardModelConfig",
    "RewardsConfig",
    "RlooConfig",
    "RolloutConfig",
    "RunConfig",
    "Sampling",
    "ScratchConfig",
    "ScriptedPolicy",
    "ServerPolicy",
    "SftConfig",
    "StarConfig",
    "TasksConfig",
    "TrainingConfig",
    "config_hash",
    "read_run_config",
    "run_config_from_json",
    "write_run_config",
]

RunConfig = (
    SftConfig
    | DpoConfig
    | KtoConfig
    | RewardModelConfig
    | ProcessRewardModelConfig
    | GrpoConfig
    | RlooConfig
    | StarConfig
    | RolloutConfig
    | ContinuationConfig
)
RUN_CONFIGS: list[type[Checked]] = [
    SftConfig,
    DpoConfig,
    KtoConfig,
    RewardModelConfig,
    ProcessRewardModelConfig,
    GrpoConfig,
    RlooConfig,
    StarConfig,
    RolloutConfig,
    ContinuationConfig,
]


def run_config_from_json(data: object) -> RunConfig:
    """The config that decoded JSON stands for. Raises InvalidField."""
    config: RunConfig = choose(RUN_CONFIGS, data, path="").from_json(data)
    return config


def read_run_config(path: Path) -> RunConfig:
    """Read `run.json`. Raises ConfigFailure."""
    try:
        return run_config_from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigFailure(f"Cannot read {path}: {error.strerror}.", advice="Give the path of a run.json.") from None
    except ValueError as error:
        raise ConfigFailure(f"{path} is no JSON: {error}.") from None


def write_run_config(config: RunConfig, path: Path) -> None:
    """Write it with all defaults spelled out, so that it means the same later."""
    path.write_text(json.dumps(config.to_json(), indent=2) + "\n", encoding="utf-8")


def config_hash(config: Checked) -> str:
    """SHA-256 over everything that changes the result (not `resume` and `pause_on_alarms`)."""
    relevant = {key: value for key, value in config.to_json().items() if key not in ("resume", "pause_on_alarms")}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()
