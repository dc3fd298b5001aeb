"""The contents of `run.json`: one frozen class for each kind of run.

    {"kind": "sft",          "model": {"scratch": {}},         "data": {"train": "demonstrations.jsonl"}}
    {"kind": "dpo",          "model": {"path": "../1/model"},  "data": {"train": "train.jsonl", "validation": "validation.jsonl"}}
    {"kind": "kto",          "model": {"path": "../1/model"},  "data": {"train": "unpaired.jsonl"}}
    {"kind": "reward_model", "model": {"path": "Qwen/Qwen3-0.6B"}, "lora": {"rank": 16}, "data": {"train": "train.jsonl"}}
    {"kind": "process_reward_model", "model": {"path": "../1/model"}, "data": {"train": "steps.jsonl"}}
    {"kind": "grpo",         "model": {"path": "../1/model"},  "tasks": {"environment": "office", "levels": ["L1", "L2"]}}
    {"kind": "continuation", "step": 3, "policy": {"engine": "local", "model": {"path": "../2/model"}}}
    {"kind": "star",         "model": {"path": "../1/model"},  "tasks": {"environment": "office", "count": 200}, "rounds": 2}
    {"kind": "rollout",      "tasks": {"environment": "office", "count": 50}, "policy": {"engine": "local", "model": {"path": "../2/model"}}}

Everything else takes its class's default. Paths are relative to the folder of `run.json`. Unknown fields,
wrong types, and values out of range are reported by name, all at once.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from contract.configs.continuation import ContinuationConfig
from contract.configs.declaration import Config
from contract.configs.dpo import DpoConfig, DpoLoss
from contract.configs.errors import InvalidConfig, InvalidField, alternatives, refused, shown
from contract.configs.fields import added_fields
from contract.configs.grpo import GrpoConfig
from contract.configs.kto import KtoConfig
from contract.configs.online import OnlineConfig, TrainingTasksConfig
from contract.configs.process_reward_model import ProcessRewardModelConfig
from contract.configs.reward_model import RewardModelConfig
from contract.configs.rewards import RewardsConfig
from contract.configs.rloo import RlooConfig
from contract.configs.rollouts import (
    Budget,
    LocalPolicy,
    PolicyConfig,
    RolloutConfig,
    Sampling,
    ScriptedPolicy,
    ServerPolicy,
    TasksConfig,
)
from contract.configs.sft import SftConfig
from contract.configs.star import StarConfig
from contract.configs.training import (
    CheckpointConfig,
    DataConfig,
    FileTrainingConfig,
    LoraConfig,
    ModelConfig,
    OptimizerConfig,
    Precision,
    ScratchConfig,
    TrainingConfig,
)

__all__ = [
    "RUN_CONFIGS",
    "TRAINING_CONFIGS",
    "Budget",
    "CheckpointConfig",
    "Config",
    "ContinuationConfig",
    "DataConfig",
    "DpoConfig",
    "DpoLoss",
    "FileTrainingConfig",
    "GrpoConfig",
    "InvalidConfig",
    "InvalidField",
    "KtoConfig",
    "LocalPolicy",
    "LoraConfig",
    "ModelConfig",
    "OnlineConfig",
    "OptimizerConfig",
    "PolicyConfig",
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
    "TrainingTasksConfig",
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
TRAINING_CONFIGS: Mapping[str, type[TrainingConfig]] = {
    "sft": SftConfig,
    "dpo": DpoConfig,
    "kto": KtoConfig,
    "reward_model": RewardModelConfig,
    "process_reward_model": ProcessRewardModelConfig,
    "grpo": GrpoConfig,
    "rloo": RlooConfig,
    "star": StarConfig,
}
"""By algorithm."""
RUN_CONFIGS: Mapping[str, type[Config]] = {
    **TRAINING_CONFIGS,
    "rollout": RolloutConfig,
    "continuation": ContinuationConfig,
}
"""Config class by kind of run."""


def run_config_from_json(data: object) -> RunConfig:
    """Build a config from decoded JSON. Raises InvalidConfig."""
    if not isinstance(data, Mapping):
        raise refused(f"got {shown(data)}, expected an object with 'kind'")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in RUN_CONFIGS:
        raise refused(f"got {shown(kind)}, expected {alternatives(RUN_CONFIGS)}", field="kind")
    config: RunConfig = RUN_CONFIGS[kind].from_json(data)  # type: ignore[assignment]  # the mapping's values are its members
    return config


def read_run_config(path: Path) -> RunConfig:
    """Read `run.json`. Raises InvalidConfig."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refused(f"Cannot read {path}: {error.strerror}.", advice="Give the path of a run.json.") from None
    except (ValueError, RecursionError) as error:
        raise refused(f"{path} isn't JSON: {error}.") from None
    return run_config_from_json(data)


def write_run_config(config: RunConfig, path: Path) -> None:
    """Write `run.json` with all defaults spelled out, so that later changes of defaults don't affect it."""
    path.write_text(json.dumps(config.to_json(), indent=2) + "\n", encoding="utf-8")


def config_hash(config: Config) -> str:
    """SHA-256 over everything that changes the result (not `resume`, `pause_on_alarms` and `tracker`)."""
    unchanged = {name for name, default in added_fields(type(config)).items() if getattr(config, name) == default}
    left_out = {"resume", "pause_on_alarms", "tracker"} | unchanged
    relevant = {key: value for key, value in config.to_json().items() if key not in left_out}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()
