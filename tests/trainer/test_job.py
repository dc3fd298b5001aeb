"""Runs as started by a worker: child processes that finish, stop, are killed, run out of memory, and resume."""

import errno
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import modeling_utils

from contract.events import CheckpointSaved, Failed, Log, Metrics, Progress, RunCancelled, Started, Warned
from tests.trainer.algorithms.test_dpo import dpo_run
from tests.trainer.algorithms.test_sft import sft_run
from tests.trainer.runs import events_of, kinds_of, output_of, run_here, start_child
from trainer.failures import ExitCode
from workers.bridge.fork_server import ForkedChild

STEPS = 30


def long_run(folder: Path, **changes: Any) -> dict[str, Any]:
    folder.mkdir()
    optimizer = {"learning_rate": 1e-3, "batch_size": 2, "gradient_accumulation": 2, "max_steps": STEPS}
    return dpo_run(folder, optimizer=optimizer, checkpoints={"every": 5}, **changes)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "run" / "model" / "model.safetensors")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The final weights of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "uninterrupted"
    child = start_child(folder_of(folder), long_run(folder))
    assert child.wait(60) == ExitCode.FINISHED, output_of(folder_of(folder))
    return weights(folder)


def folder_of(folder: Path) -> Path:
    return folder / "run"


def wait_for(folder: Path, happened: Callable[[Any], bool], child: ForkedChild) -> None:
    while child.poll() is None:
        if any(happened(line.event) for line in events_of(folder)):
            return
        time.sleep(0.01)
    pytest.fail(f"The child ended first: {output_of(folder)}")


def assert_same(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], rtol=0, atol=0, msg=name)


def test_a_stopped_run_saves_itself_and_ends_with_the_same_weights(tmp_path: Path, uninterrupted: Any):
    config = long_run(tmp_path / "a")
    folder = folder_of(tmp_path / "a")
    child = start_child(folder, config)
    wait_for(folder, lambda event: isinstance(event, Progress) and event.step >= 7, child)
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == ExitCode.CANCELLED
    last = events_of(folder)[-1].event
    assert isinstance(last, RunCancelled)
    step = int(last.checkpoint.removeprefix("checkpoints/checkpoint-"))
    assert 7 <= step < STEPS
    assert (folder / last.checkpoint / "complete.json").is_file()
    assert not (folder / "model").exists()

    again = start_child(folder, config)
    assert again.wait(60) == ExitCode.FINISHED, output_of(folder)
    started = [line.event.step for line in events_of(folder) if isinstance(line.event, Started)]
    assert started == [0, step]
    assert_same(weights(tmp_path / "a"), uninterrupted)
    assert [line.seq for line in events_of(folder)] == list(range(1, len(events_of(folder)) + 1))


def test_a_killed_run_goes_on_from_its_last_whole_checkpoint(tmp_path: Path, uninterrupted: Any):
    config = long_run(tmp_path / "b")
    folder = folder_of(tmp_path / "b")
    child = start_child(folder, config)
    wait_for(folder, lambda event: isinstance(event, CheckpointSaved) and event.step >= 10, child)
    child.send_signal(signal.SIGKILL)
    assert child.wait(60) == -signal.SIGKILL
    assert kinds_of(folder)[-1] not in {"finished", "failed", "cancelled"}
    saved = [line.event.step for line in events_of(folder) if isinstance(line.event, CheckpointSaved)]
    partial = folder / "checkpoints" / f"checkpoint-{saved[-1] + 1}"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"cut off")
    (folder / "model.part").mkdir()

    again = start_child(folder, config)
    assert again.wait(60) == ExitCode.FINISHED, output_of(folder)
    started = [line.event.step for line in events_of(folder) if isinstance(line.event, Started)]
    assert started == [0, saved[-1]]
    assert_same(weights(tmp_path / "b"), uninterrupted)
    assert not (folder / "model.part").exists()


def test_a_run_that_was_killed_after_its_last_step_only_publishes(tmp_path: Path):
    config = dpo_run(tmp_path)
    folder = tmp_path / "run"
    assert run_here(folder, config) == ExitCode.FINISHED
    before = weights(tmp_path)
    (folder / "model" / "model.safetensors").unlink()
    assert run_here(folder, config) == ExitCode.FINISHED
    assert_same(weights(tmp_path), before)
    assert [line.event.step for line in events_of(folder) if isinstance(line.event, Progress)] == [1, 2, 3, 4, 5, 6]
    assert json.loads((folder / "report.json").read_text())["steps"] == 6


def test_a_checkpoint_of_another_configuration_is_pointed_out(tmp_path: Path):
    config = dpo_run(tmp_path)
    folder = tmp_path / "run"
    run_here(folder, config)
    assert run_here(folder, {**config, "beta": 0.3}) == ExitCode.FINISHED
    warnings = [line.event for line in events_of(folder) if isinstance(line.event, Warned)]
    assert ["another configuration" in warning.message for warning in warnings] == [True]


def test_a_resumed_run_learns_at_the_rate_that_is_configured_now(tmp_path: Path):
    config = dpo_run(tmp_path)
    config["optimizer"] |= {"learning_rate": 1e-3, "schedule": "constant", "max_steps": 4}
    folder = tmp_path / "run"
    stop = lambda event: isinstance(event, Progress) and event.step == 2  # noqa: E731
    assert run_here(folder, config, stop_on=stop) == ExitCode.CANCELLED
    config["optimizer"]["learning_rate"] = 1e-4
    assert run_here(folder, config) == ExitCode.FINISHED
    metrics = [line.event for line in events_of(folder) if isinstance(line.event, Metrics)]
    rates = {event.step: event.values["learning_rate"] for event in metrics if "learning_rate" in event.values}
    assert rates == {1: 1e-3, 2: 1e-3, 3: 1e-4, 4: 1e-4}


def test_resuming_can_be_turned_off(tmp_path: Path):
    config = dpo_run(tmp_path)
    folder = tmp_path / "run"
    run_here(folder, config)
    assert run_here(folder, {**config, "resume": False}) == ExitCode.FINISHED
    assert [line.event.step for line in events_of(folder) if isinstance(line.event, Started)] == [0, 0]


def test_a_run_that_starts_over_forgets_the_checkpoints_of_before(tmp_path: Path):
    config = dpo_run(tmp_path)
    folder = tmp_path / "run"
    run_here(folder, config)
    stop = lambda event: isinstance(event, Progress) and event.step == 2  # noqa: E731
    assert run_here(folder, {**config, "resume": False}, stop_on=stop) == ExitCode.CANCELLED
    assert [path.name for path in (folder / "checkpoints").glob("checkpoint-*")] == ["checkpoint-2"]


@pytest.mark.parametrize("written", ["optimizer.pt", "model.safetensors"])
def test_a_disk_that_fills_up_is_said_and_leaves_the_last_whole_checkpoint(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """While writing the second checkpoint or, at the end, the policy: an incomplete policy isn't kept, and takes no space."""
    config = dpo_run(tmp_path / "a")
    folder = tmp_path / "a" / "run"
    in_checkpoint = written == "optimizer.pt"
    config["checkpoints"] = {"every": 3}
    with monkeypatch.context() as full:
        fill_disk(full, written, at=folder / "checkpoints" / "checkpoint-6" if in_checkpoint else folder / "model.part")
        assert run_here(folder, config) == ExitCode.CRASH
    last = events_of(folder)[-1].event
    assert isinstance(last, Failed)
    assert last.message.startswith("No space left on device")
    left = {path.name for path in (folder / "checkpoints").glob("checkpoint-*")}
    assert left == ({"checkpoint-3"} if in_checkpoint else {"checkpoint-3", "checkpoint-6"})
    assert not [path for path in folder.iterdir() if path.name.startswith(("model", "report"))]

    assert run_here(folder, config) == ExitCode.FINISHED
    assert [line.event.step for line in events_of(folder) if isinstance(line.event, Started)][1:] == [3] * in_checkpoint
    alone = dpo_run(tmp_path / "b")
    run_here(tmp_path / "b" / "run", alone)
    assert_same(weights(tmp_path / "a"), weights(tmp_path / "b"))


def fill_disk(monkeypatch: pytest.MonkeyPatch, written: str, *, at: Path) -> None:
    """As on a full disk: a file is created with only a part of its bytes."""
    library, name = (torch, "save") if written == "optimizer.pt" else (modeling_utils, "safe_save_file")
    save = getattr(library, name)

    def saving(value: Any, path: Any, *rest: Any, **more: Any) -> None:
        if Path(path).parent != at:
            return save(value, path, *rest, **more)
        Path(path).write_bytes(b"cut off")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(library, name, saving)


def test_no_memory_is_told_apart_from_a_crash(tmp_path: Path):
    """A model of 2^40 dimensions is more than any machine can address, so its first allocation really fails."""
    scratch = {"layers": 1, "hidden": 1_000_000, "intermediate": 1, "heads": 1, "vocabulary": 400}
    config = sft_run(tmp_path / "run", model={"scratch": scratch})
    assert run_here(tmp_path / "run", config) == ExitCode.OUT_OF_MEMORY
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert last.category == "out_of_memory"
    assert "Lower optimizer.batch_size" in last.advice
    assert "Traceback" in last.details


def test_a_crash_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    config = sft_run(tmp_path / "run")
    monkeypatch.setattr("trainer.algorithms.sft.train_sft", broken)
    assert run_here(tmp_path / "run", config) == ExitCode.CRASH
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert (last.category, last.message) == ("crash", "ZeroDivisionError: division by zero")
    assert "in broken" in last.details


def test_a_stop_before_the_first_step_saves_nothing_and_says_so(tmp_path: Path):
    config = sft_run(tmp_path / "run")
    code = run_here(
        tmp_path / "run", config, stop_on=lambda event: isinstance(event, Log) and "Preparing" in event.message
    )
    assert code == ExitCode.CANCELLED
    assert events_of(tmp_path / "run")[-1].event == RunCancelled("")


def test_a_stop_in_the_middle_of_an_evaluation_is_prompt_and_loses_no_step(tmp_path: Path):
    config = dpo_run(tmp_path, evaluate_every=3, optimizer={"batch_size": 2, "max_steps": 6})
    folder = tmp_path / "run"
    # The step's own metrics are the last event before its evaluation
    code = run_here(folder, config, stop_on=lambda event: isinstance(event, Metrics) and event.step == 3)
    assert code == ExitCode.CANCELLED
    assert events_of(folder)[-1].event == RunCancelled("checkpoints/checkpoint-3")


def test_a_missing_file_is_an_exit_code_and_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from trainer.__main__ import main

    assert main([str(tmp_path / "run.json")]) == ExitCode.CONFIG
    assert "There is no file" in capsys.readouterr().err
