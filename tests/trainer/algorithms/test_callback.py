"""TRL's logs as events of a run."""

from pathlib import Path

import torch
from transformers import TrainerControl, TrainerState, TrainingArguments

from contract.configs import SftConfig, run_config_from_json
from contract.events import Metrics
from tests.trainer.runs import events_of
from trainer.algorithms import callback as module
from trainer.algorithms.callback import RunCallback
from trainer.events import EventLog
from trainer.interruption import StopRequest


def test_the_speed_after_a_resume_is_that_of_its_own_steps(tmp_path: Path, monkeypatch):
    moments = iter([10.0, 20.0, 22.0])
    monkeypatch.setattr(module, "monotonic", lambda: next(moments))
    config = run_config_from_json({"kind": "sft", "model": {"scratch": {}}, "data": {"train": "train.jsonl"}})
    assert isinstance(config, SftConfig)
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    with EventLog(tmp_path / "events.jsonl") as events:
        callback = RunCallback(config, tmp_path, events, StopRequest())
        state = TrainerState(global_step=50, max_steps=100, num_input_tokens_seen=1_000_000)
        callback.on_train_begin(arguments, state, TrainerControl(), model=torch.nn.Linear(1, 1))
        callback.on_log(arguments, state, TrainerControl(), {"loss": 1.0, "num_tokens": 1_000_400.0})
    [metrics] = [stamped.event for stamped in events_of(tmp_path) if isinstance(stamped.event, Metrics)]
    assert metrics.values["tokens_per_second"] == 200.0  # 400 tokens in 2 s
    assert metrics.values["tokens"] == 1_000_400.0


def test_an_online_run_says_how_many_rollouts_it_has_learned_from(tmp_path: Path):
    optimizer = {"batch_size": 4, "gradient_accumulation": 2}
    config = run_config_from_json({"kind": "grpo", "model": {"path": "policy"}, "updates": 2, "optimizer": optimizer})
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    with EventLog(tmp_path / "events.jsonl") as events:
        callback = RunCallback(config, tmp_path, events, StopRequest())
        state = TrainerState(global_step=6, max_steps=100)
        callback.on_log(arguments, state, TrainerControl(), {"loss": 1.0})
        callback.on_log(arguments, state, TrainerControl(), {"eval_loss": 1.0})
    logged, evaluated = [stamped.event for stamped in events_of(tmp_path) if isinstance(stamped.event, Metrics)]
    assert logged.values["rollouts"] == 24.0  # 8 rollouts per step, each of which serves 2 updates
    assert evaluated.values == {"eval/loss": 1.0}
