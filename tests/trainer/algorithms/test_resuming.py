"""For every algorithm: the same seed gives the same weights, and a stopped and resumed run ends with them as well."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from contract.events import Event, Metrics, Progress, Started
from tests.trainer.algorithms.test_kto import kto_run
from tests.trainer.algorithms.test_prm import prm_run
from tests.trainer.algorithms.test_reward_model import reward_run
from tests.trainer.algorithms.test_sft import sft_run
from tests.trainer.policies import preference_rows
from tests.trainer.runs import events_of, run_here
from trainer.failures import ExitCode

STEPS = 4


def sft_beside(folder: Path, **changes: Any) -> dict[str, Any]:
    return sft_run(folder / "run", **changes)


def kto_beside(folder: Path, **changes: Any) -> dict[str, Any]:
    return kto_run(folder, preference_rows(8), **changes)


CASES: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, Any]]] = {
    "sft": (sft_beside, {}),
    "kto with adapters": (kto_beside, {"lora": {"rank": 2, "dropout": 0.1}}),
    "reward model": (reward_run, {}),
    "process reward model with adapters": (prm_run, {"lora": {"rank": 2}}),
    "process reward model in bfloat16": (prm_run, {"precision": "bfloat16"}),
}


def trained(folder: Path, case: str, *, stopped: bool = False) -> dict[str, torch.Tensor]:
    """The weights of a run with gradient accumulation; if `stopped`, it's stopped after its second step and resumed."""
    folder.mkdir()
    make, changes = CASES[case]
    precision = changes.get("precision", "float32")
    optimizer = {"learning_rate": 1e-3, "batch_size": 2, "gradient_accumulation": 2, "max_steps": STEPS}
    config = make(folder, optimizer={**optimizer, "precision": precision}, **without_precision(changes))
    del config["data"]["validation"]
    if stopped:
        code = run_here(folder / "run", config, stop_on=lambda event: isinstance(event, Progress) and event.step == 2)
        assert code == ExitCode.CANCELLED
        assert not (folder / "run" / "model").exists()
    assert run_here(folder / "run", config) == ExitCode.FINISHED
    return load_file(folder / "run" / "model" / "model.safetensors")


def without_precision(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name != "precision"}


@pytest.mark.parametrize("case", CASES)
def test_a_stopped_run_ends_with_the_weights_of_one_that_was_left_alone(case: str, tmp_path: Path):
    alone, resumed = trained(tmp_path / "alone", case), trained(tmp_path / "stopped", case, stopped=True)
    assert alone.keys() == resumed.keys()
    for name, weights in alone.items():
        torch.testing.assert_close(resumed[name], weights, rtol=0, atol=0, msg=name)


@pytest.mark.parametrize(
    "during",
    [lambda event: isinstance(event, Started), lambda event: isinstance(event, Progress) and event.step == STEPS],
)
def test_an_evaluation_that_was_stopped_is_made_up_for(during: Callable[[Event], bool], tmp_path: Path):
    """Both the first evaluation, before anything was learned, and the last one."""
    reports = []
    for stopped in (False, True):
        folder = tmp_path / str(stopped) / "run"
        folder.parent.mkdir()
        config = sft_run(folder, evaluate_every=STEPS)
        config["optimizer"]["max_steps"] = STEPS
        if stopped:
            assert run_here(folder, config, stop_on=during) == ExitCode.CANCELLED
        assert run_here(folder, config) == ExitCode.FINISHED
        reports.append(json.loads((folder / "report.json").read_text())["validation"])
    assert reports[0]["before"] != reports[0]["after"]
    assert reports[0] == reports[1]


@pytest.mark.parametrize("during", [Progress, Metrics])
def test_an_evaluation_that_was_due_when_the_run_was_stopped_is_made_up_for(
    during: type[Progress | Metrics], tmp_path: Path
):
    folder = tmp_path / "run"
    config = sft_run(folder, evaluate_every=2, log_every=2)
    config["optimizer"]["max_steps"] = STEPS
    at_second_step = lambda event: isinstance(event, during) and event.step == 2  # noqa: E731
    assert run_here(folder, config, stop_on=at_second_step) == ExitCode.CANCELLED
    assert run_here(folder, config) == ExitCode.FINISHED
    metrics = [line.event for line in events_of(folder) if isinstance(line.event, Metrics)]
    assert [event.step for event in metrics if "eval/loss" in event.values] == [0, 2, 4]
