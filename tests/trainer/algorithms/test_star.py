"""Rejection sampling: what is kept, the effect of hints, and rounds that resume where they stopped."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from contract.configs import ScriptedPolicy, SftConfig
from contract.events import AlarmRaised, CheckpointSaved, Failed, Log, Metrics, Progress
from contract.left_out_tasks import write_left_out
from contract.trajectory import Outcome, Step, Task, Trajectory
from tests.trainer.policies import save_policy
from tests.trainer.runs import events_of, run_here
from trainer.alarms.rules import RULES, Finding
from trainer.algorithms import star
from trainer.algorithms.star import choose, hint_for, without_hint
from trainer.environments import environment_named
from trainer.environments.office import Office
from trainer.failures import DataFailure, ExitCode
from trainer.records import read_trajectories
from trainer.rollouts import runner
from trainer.rollouts.scripted import ScriptedEngine


def run_that_says(*words: str, task: str = "t", success: bool = True) -> Trajectory:
    steps = [Step([{"role": "user", "content": "Do it."}], {"role": "assistant", "content": word}) for word in words]
    return Trajectory(Task(key=task, instruction="Do it."), steps, Outcome(success=success))


def test_different_successes_are_kept_the_shortest_first():
    long, short, same = run_that_says("a", "b", "c"), run_that_says("a"), run_that_says("a")
    failed, other = run_that_says("x", success=False), run_that_says("a", task="u")
    middle = run_that_says("a", "b")
    assert choose([long, failed, short, same, middle, other], max_count=2) == [short, middle, other]


def test_a_hint_names_the_calls_and_is_gone_from_what_is_learned():
    task = next(islice(Office.tasks(levels=("L1",), split="train", seed=0), 1))
    hint = hint_for(task)
    assert hint.startswith("\n\nHint: ")
    hinted = replace(task, instruction=task.instruction + hint)
    opening = Office().reset(hinted)
    assert hint in opening[-1]["content"]
    run = Trajectory(hinted, [Step(opening, {"role": "assistant", "content": "Done."})])
    plain = without_hint(run, hint)
    assert plain.steps[0].context == Office().reset(task)
    assert plain.task == task
    assert hint_for(Task(key="k", instruction="")) == ""


@pytest.fixture
def acts_as(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces the acting policy with a script, since a model trained in seconds never succeeds."""

    def exchange(script: str) -> None:
        def engine(config: Any, *_: object) -> ScriptedEngine:
            return ScriptedEngine(ScriptedPolicy(script=script), environment_named(config.tasks.environment))

        monkeypatch.setattr(runner, "make_policy", engine)

    return exchange


def star_run(folder: Path, **changes: Any) -> dict[str, Any]:
    save_policy(folder / "base")
    (folder / "run").mkdir()
    return {
        "kind": "star",
        "model": {"path": "../base"},
        "tasks": {"environment": "office", "levels": ["L1"], "count": 12},
        "samples": 2,
        "held_out": 4,
        "optimizer": {"learning_rate": 1e-2, "batch_size": 4, "max_steps": 3, "max_length": 20000},
        **changes,
    }


def test_rounds_attempt_keep_and_learn(tmp_path: Path, acts_as: Any):
    acts_as("hasty")
    folder = tmp_path / "run"
    config = star_run(tmp_path)
    write_left_out(["office/L1/train/0", "office/L1/held_out/0"], folder)
    assert run_here(folder, config) == ExitCode.FINISHED
    for number in (1, 2):
        of_round = folder / "rounds" / str(number)
        attempted = {run.task.key for run in read_trajectories(of_round / "attempts.jsonl")}
        assert attempted == {f"office/L1/train/{task}" for task in range(1, 13)}
        held_out = {run.task.key for run in read_trajectories(of_round / "held_out.jsonl")}
        assert held_out == {f"office/L1/held_out/{task}" for task in range(4)}
    report = json.loads((folder / "report.json").read_text())
    assert [report["attempts"]["n"] for report in report["rounds"]] == [24, 24]
    assert report["steps"] == 6
    assert report["validation"]["before"].keys() == {"success"}
    kept = list(read_trajectories(folder / "rounds" / "1" / "kept.jsonl"))
    assert len(kept) == report["rounds"][0]["kept"] + report["rounds"][0]["with_hint"] > 0
    assert all(run.outcome.success for run in kept)
    assert not any("Hint:" in json.dumps(run.to_json()) for run in kept)
    assert AutoModelForCausalLM.from_pretrained(folder / "model").config.num_hidden_layers == 1
    events = [line.event for line in events_of(folder)]
    assert [event.step for event in events if isinstance(event, Progress)] == [1, 2, 3, 4, 5, 6]
    assert [event.path for event in events if isinstance(event, CheckpointSaved)][-1].startswith(
        "rounds/2/checkpoints/"
    )
    assert [event.step for event in events if isinstance(event, Metrics)] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_was_stopped_between_rounds_does_the_second_one_only(tmp_path: Path, acts_as: Any):
    acts_as("expert")
    folder = tmp_path / "run"
    config = star_run(tmp_path, hints=False)
    stop_at = lambda event: isinstance(event, Log) and event.message.startswith("Round 2: attempting")  # noqa: E731
    assert run_here(folder, config, stop_on=stop_at) == ExitCode.CANCELLED
    first = (folder / "rounds" / "1" / "round.json").read_bytes()
    assert run_here(folder, config) == ExitCode.FINISHED
    assert (folder / "rounds" / "1" / "round.json").read_bytes() == first
    logs = [line.event.message for line in events_of(folder) if isinstance(line.event, Log)]
    assert sum(message.startswith("Round 1: attempting") for message in logs) == 1


def test_a_round_pauses_on_alarms_if_its_run_does(tmp_path: Path, acts_as: Any, monkeypatch: pytest.MonkeyPatch):
    acts_as("expert")
    rounds: list[SftConfig] = []

    def train(config: SftConfig, *_: object) -> dict[str, Any]:
        rounds.append(config)
        raise DataFailure("Enough.")

    monkeypatch.setattr(star, "train_sft", train)
    assert run_here(tmp_path / "run", star_run(tmp_path, held_out=0, pause_on_alarms=True)) == ExitCode.DATA
    assert [config.pause_on_alarms for config in rounds] == [True]


def test_a_policy_that_never_succeeds_is_told_so(tmp_path: Path):
    folder = tmp_path / "run"
    tasks = {"environment": "office", "levels": ["L1"], "count": 2}
    small = {"tasks": tasks, "samples": 1, "held_out": 0, "hints": False, "sampling": {"max_new_tokens": 2}}
    assert run_here(folder, star_run(tmp_path, **small, budget={"steps": 1})) == ExitCode.DATA
    last = events_of(folder)[-1].event
    assert isinstance(last, Failed)
    assert last.message == "None of 2 attempts succeeded, so there is nothing to learn from."


def test_an_alarm_of_a_later_round_has_the_step_of_the_whole_run(
    tmp_path: Path, acts_as: Any, monkeypatch: pytest.MonkeyPatch
):
    acts_as("expert")
    rule = lambda curves: Finding("Too long already.", "Look.") if curves.has("loss", 2) else None  # noqa: E731
    monkeypatch.setitem(RULES, "dead_groups", rule)
    assert run_here(tmp_path / "run", star_run(tmp_path, held_out=0, hints=False)) == ExitCode.FINISHED
    alarms = [line.event for line in events_of(tmp_path / "run") if isinstance(line.event, AlarmRaised)]
    assert [alarm.step for alarm in alarms] == [2, 5]
