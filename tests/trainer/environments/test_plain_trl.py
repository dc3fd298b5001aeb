"""TRL's own trainers can use the environment: its tools, resetting to tasks, and the reward for the final state."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer

from tests.trainer.environments.scripted_episodes import first_tasks, played
from tests.trainer.policies import small_model, small_tokenizer
from trainer.environments.office import Office
from trainer.environments.plain_trl import trl_environment, trl_rows

TASKS = first_tasks(Office, 4, levels=("L1",))


def test_tools_are_methods_that_act_and_tell_what_went_wrong():
    environment = trl_environment(Office)()
    environment.reset(**trl_rows(Office, TASKS)[0])
    calls = [call for step in played(Office, TASKS[0], "expert").steps for call in step.message.get("tool_calls", [])]
    assert environment.get_reward() == 0
    assert json.loads(environment.find_contact(name="Nobody")) == {"error": "nobody here is called 'Nobody'"}
    assert json.loads(environment.find_contact(nam="Ana"))["error"].startswith("unknown argument nam")
    for call in calls:
        getattr(environment, call["function"]["name"])(**call["function"]["arguments"])
    assert environment.get_reward() == 1
    environment.reset(**trl_rows(Office, TASKS)[1])
    assert environment.get_reward() == 0


def test_the_schemas_that_trl_reads_are_ours():
    factory = trl_environment(Office)
    read = {
        name: get_json_schema(function)["function"]["parameters"]
        for name, function in inspect.getmembers(factory, inspect.isfunction)
        if not name.startswith("_") and name not in ("reset", "get_reward")
    }
    assert read == {tool["function"]["name"]: tool["function"]["parameters"] for tool in Office.toolset.schemas}


def test_a_step_of_grpo_runs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    rewards: list[Any] = []

    class Watched(trl_environment(Office)):  # type: ignore[misc]  # the class is created at run time
        def get_reward(self) -> float:
            rewards.append(super().get_reward())
            return float(rewards[-1])

    trainer = GRPOTrainer(
        model=small_model(),
        processing_class=small_tokenizer(),
        train_dataset=Dataset.from_list(trl_rows(Office, TASKS)),
        environment_factory=Watched,
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=4,
            num_generations=4,
            max_steps=1,
            max_completion_length=8,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
        ),
    )
    trainer.train()
    assert rewards == [0.0] * 4
