"""The canary distinguishes the trained policy from its base and from other policies, despite numerical noise of a different engine."""

import hashlib
import json
import math
from pathlib import Path

import pytest
from peft import PeftModel
from transformers import AutoModelForCausalLM

from tests.trainer.policies import preference_rows, save_policy
from tests.trainer.runs import run_here
from trainer.algorithms.canary_probes import token_logprobs
from trainer.canary import Canary, judge, read_canary
from trainer.failures import DataFailure, ExitCode

ONE_APART = Canary(probes=[[5, 6, 7]], policy=[[-1.0, -2.0]], base=[[-2.0, -3.0]])


@pytest.mark.parametrize(
    ("served", "finding"),
    [
        ([[-1.0, -2.0]], "passed"),
        ([[-1.4, -1.6]], "passed"),  # 0.4 nats of noise, while the run made a difference of 1
        ([[-2.0, -3.0]], "base_answers"),
        ([[-1.8, -2.7]], "base_answers"),
        ([[-4.0, -4.0]], "other_policy"),
        ([[-1.5, -2.5]], "other_policy"),  # halfway: a policy that was trained half as long
        ([[math.nan, -2.0]], "other_policy"),
    ],
)
def test_what_answers_is_told_by_its_distance(served: list[list[float]], finding: str):
    assert judge(ONE_APART, served).finding == finding


def test_a_server_with_another_base_is_named():
    verdict = judge(ONE_APART, [[-1.0, -2.0]], served_base=[[-5.0, -5.0]])
    assert verdict.finding == "other_base"
    assert "not the one that this policy was trained from" in verdict.message


def test_a_base_that_was_trained_in_four_bits_is_judged_by_its_change():
    rounded = Canary([[5, 6, 7]], policy=[[-1.0, -2.0]], base=[[-1.2, -2.2]], merged=[[-1.15, -1.85]])
    of_base = [[-1.35, -2.05]]  # 0.15 nats from the rounded base, which the run moved by 0.2
    assert judge(rounded, [[-1.15, -1.85]], served_base=of_base).passed
    assert judge(rounded, of_base, served_base=of_base).finding == "base_answers"
    assert judge(rounded, [[-1.15, -1.85]], served_base=[[-5.0, -5.0]]).finding == "other_base"
    assert judge(rounded, [[-1.15, -1.85]]).passed  # the whole model, after a restart
    whole = Canary(rounded.probes, rounded.policy, rounded.base)
    assert judge(whole, [[-1.15, -1.85]], served_base=of_base).finding == "other_base"


def test_a_run_that_changed_nothing_cannot_be_proven():
    still = Canary([[5, 6]], policy=[[-1.0]], base=[[-1.0005]])
    verdict = judge(still, [[-1.0]])
    assert verdict.finding == "unprovable"
    assert "Publish it as a folder" in verdict.message


GENTLE = Canary([[5, 6, 7]], policy=[[-1.0, -2.0]], base=[[-1.02, -2.02]])
NOISY_BASE = [[-1.07, -1.97]]  # the server's kernels are off by 0.05 nats, while the run made a difference of 0.02


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ([0.02, 0.02], "passed"),  # the run's effect, on top of the noise
        ([0.015, 0.025], "passed"),
        ([0.0, 0.0], "base_answers"),
        ([-0.02, 0.02], "unprovable"),
        ([0.04, 0.04], "unprovable"),
        ([0.5, -0.5], "other_policy"),
    ],
)
def test_a_change_smaller_than_an_engines_noise_is_judged_on_the_servers_own_base(change: list[float], finding: str):
    served = [[base + shift for base, shift in zip(NOISY_BASE[0], change, strict=True)]]
    verdict = judge(GENTLE, served, served_base=NOISY_BASE)
    assert verdict.finding == finding
    assert ("Publish it as a folder" in verdict.message) == (finding == "unprovable")


def test_a_whole_model_that_moved_less_than_engines_differ_is_not_called_another():
    """There is no base to compare with, so the right model may be no closer than this."""
    assert judge(GENTLE, NOISY_BASE).finding == "unprovable"
    assert judge(GENTLE, [[-1.0, -2.001]]).passed
    assert judge(GENTLE, [[-4.0, -4.0]]).finding == "other_policy"


def test_another_base_is_not_taken_for_noise():
    assert judge(GENTLE, [[-1.3, -1.7]], served_base=[[-1.32, -1.72]]).finding == "other_base"


def test_answers_to_other_tokens_are_no_answer():
    with pytest.raises(ValueError, match="of different tokens"):
        judge(ONE_APART, [[-1.0]])


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA run of DPO, and its base."""
    home = tmp_path_factory.mktemp("canary")
    save_policy(home / "base")
    folder = home / "run"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in preference_rows(16)))
    config = {
        "kind": "dpo",
        "model": {"path": "../base"},
        "data": {"train": "rows.jsonl"},
        "lora": {"rank": 4},
        "optimizer": {"learning_rate": 1e-2, "batch_size": 4, "max_steps": 4},
    }
    assert run_here(folder, config) == ExitCode.FINISHED
    return folder


def test_a_run_leaves_a_canary_that_its_adapter_passes_and_its_base_does_not(a_run: Path):
    facts = json.loads((a_run / "report.json").read_text())["canary"]
    canary = read_canary(a_run, sha256=facts["sha256"])
    assert (facts["probes"], facts["apart"]) == (6, round(canary.apart, 6))
    base = AutoModelForCausalLM.from_pretrained(a_run.parent / "base")
    of_base = token_logprobs(base, canary.probes)
    assert judge(canary, of_base).finding == "base_answers"
    merged = AutoModelForCausalLM.from_pretrained(a_run / "model")
    assert judge(canary, token_logprobs(merged, canary.probes)).passed
    adapted = PeftModel.from_pretrained(base, a_run / "adapter")
    assert judge(canary, token_logprobs(adapted, canary.probes), served_base=of_base).passed


@pytest.mark.parametrize(
    "body",
    [
        "5",
        "{}",
        '{"probes": [["a"]], "policy": [[1]], "base": [[1]]}',
        '{"probes": [], "policy": [["x"]], "base": [[1]]}',
    ],
)
def test_a_canary_of_an_imported_archive_may_be_anything(tmp_path: Path, body: str):
    (tmp_path / "canary.json").write_text(body)
    with pytest.raises(DataFailure, match="can't be read"):
        read_canary(tmp_path, sha256=hashlib.sha256(body.encode()).hexdigest())


def test_a_changed_canary_is_refused(a_run: Path):
    with pytest.raises(DataFailure, match="is not what the run wrote"):
        read_canary(a_run, sha256="0" * 64)
