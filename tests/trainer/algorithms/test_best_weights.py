"""The weights of the best evaluation are published if the last ones are worse."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from contract.events import Warned
from tests.trainer.algorithms.test_online import letters, online_run
from tests.trainer.runs import events_of, run_here
from trainer.algorithms import online
from trainer.algorithms.best_weights import BestWeights, Evaluation
from trainer.failures import ExitCode

__all__ = ["letters"]


@pytest.mark.parametrize("lora", [None, {"rank": 2}], ids=["all weights", "lora"])
@pytest.mark.parametrize(
    ("successes", "kept"), [((0.9, 0.3, 0.5, 0.5), 3), ((0.1, 0.9, 0.5, 0.1), 1), ((0.1, 0.2, 0.5, 0.4), 2)]
)
def test_the_policy_has_the_weights_of_the_best_evaluation_after_training_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, successes: tuple[float, ...], kept: int, lora: Any
):
    measured = iter(successes)
    evaluated = online.figures_of
    monkeypatch.setattr(online, "figures_of", lambda *batch: {**evaluated(*batch), "success": next(measured)})
    folder = tmp_path / "run"
    config = online_run(folder, "grpo", keep_best=True, evaluate_every=1, lora=lora)
    assert run_here(folder, config) == ExitCode.FINISHED
    report = json.loads((folder / "report.json").read_text())
    assert report["validation"]["after"]["success"] == successes[kept]
    warnings = [line.event.message for line in events_of(folder) if isinstance(line.event, Warned)]
    assert [f"step {kept}, whose evaluation was the best" in warning for warning in warnings] == [True] * (kept < 3)
    file = "adapter_model.safetensors" if lora else "model.safetensors"
    published = load_file(folder / ("adapter" if lora else "model") / file)
    expected = load_file(folder / "checkpoints" / f"checkpoint-{kept}" / file)
    assert published.keys() == expected.keys()
    for name, weights in published.items():
        torch.testing.assert_close(weights, expected[name], rtol=0, atol=0, msg=name)


def test_an_attempt_forgets_what_came_after_the_checkpoint_it_resumes_from(tmp_path: Path):
    best, model, control = BestWeights(tmp_path), torch.nn.Linear(2, 2), SimpleNamespace()
    for step, success in ((1, 0.2), (4, 0.6)):
        state: Any = SimpleNamespace(global_step=step, is_world_process_zero=True)
        best.on_evaluate(None, state, control, metrics={"eval_success": success}, model=model)  # type: ignore[arg-type]
    best.on_train_begin(None, state, control)  # type: ignore[arg-type]
    assert best.evaluation == Evaluation(4, 0.6)
    state.global_step = 3
    best.on_train_begin(None, state, control)  # type: ignore[arg-type]
    assert best.evaluation is None


def test_without_a_measured_success_no_evaluation_is_the_best(tmp_path: Path):
    best, state = BestWeights(tmp_path), SimpleNamespace(global_step=1, is_world_process_zero=True)
    best.on_evaluate(None, state, SimpleNamespace(), metrics={"eval_reward": 0.5}, model=torch.nn.Linear(2, 2))  # type: ignore[arg-type]
    assert best.evaluation is None
