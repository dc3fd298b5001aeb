"""Training in several processes, as started by `accelerate launch` or torchrun; here two on the CPU, with gloo."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from contract.events import CheckpointSaved, Finished, Metrics
from tests.trainer.algorithms.test_online import online_run
from tests.trainer.algorithms.test_reward_model import reward_run
from tests.trainer.runs import ROOT, events_of, fork_child, output_of, run_here, write_run
from trainer.failures import ExitCode


def settings(batch_size: int) -> dict[str, Any]:
    optimizer = {"learning_rate": 1e-3, "batch_size": batch_size, "max_steps": 2}
    return {"optimizer": optimizer, "evaluate_every": 2}


def fork_two(folder: Path, config: dict[str, Any], port: int) -> None:
    """Run it in two forked processes with the variables that torchrun sets, without waiting for torchrun to import torch three times."""
    both = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    path = write_run(folder, config)  # once, since the first process may be reading it
    children = [fork_child(path, RANK=rank, LOCAL_RANK=rank, **both) for rank in ("0", "1")]
    for child in children:
        assert child.wait(240) == ExitCode.FINISHED, output_of(folder)


def launch_two(folder: Path, config: dict[str, Any], port: int) -> None:
    """Run it with torchrun."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launch, "-m", "trainer", str(write_run(folder, config))],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == ExitCode.FINISHED, done.stderr[-3000:]


@pytest.mark.parametrize("run_two", [fork_two, pytest.param(launch_two, marks=pytest.mark.long)])
def test_two_processes_take_the_step_of_one_with_twice_the_batch(
    tmp_path: Path, free_port: int, run_two: Callable[[Path, dict[str, Any], int], None]
):
    (tmp_path / "one").mkdir()
    assert run_here(tmp_path / "one" / "run", reward_run(tmp_path / "one", **settings(8))) == ExitCode.FINISHED

    (tmp_path / "two").mkdir()
    run_two(tmp_path / "two" / "run", reward_run(tmp_path / "two", **settings(4)), free_port)

    alone, together = (load_file(tmp_path / where / "run" / "model" / "model.safetensors") for where in ("one", "two"))
    for name, weights in alone.items():
        torch.testing.assert_close(together[name], weights, rtol=1e-4, atol=1e-5, msg=name)
    events = [line.event for line in events_of(tmp_path / "two" / "run")]
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, CheckpointSaved) for event in events) == 1  # only the first process reports


def test_figures_of_a_step_count_the_rollouts_of_both_processes(tmp_path: Path, free_port: int):
    folder = tmp_path / "run"
    config = online_run(
        folder,
        "grpo",
        tasks={"environment": "office", "count": 6},
        budget={"steps": 2},
        sampling={"max_new_tokens": 8},
        held_out=0,
    )
    config["optimizer"]["max_steps"] = 1
    fork_two(folder, config, free_port)
    [values] = [
        line.event.values
        for line in events_of(folder)
        if isinstance(line.event, Metrics) and "reward" in line.event.values
    ]
    assert values["rollouts_scored"] == 2 * 8
